"""Under which names a viewer may be asked: what DNS rebinding is refused by."""

from __future__ import annotations

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.viewer.host_names import HostNames

LOCAL = HostNames.of("127.0.0.1")
OPEN = HostNames.of("0.0.0.0", ["maps.example.net"])


@pytest.mark.parametrize(
    "authority",
    ["127.0.0.1", "127.0.0.1:8000", "127.8.9.1", "localhost", "LocalHost:80", "localhost.", "[::1]:8000"],
)
def test_the_loopback_is_always_admitted(authority: str) -> None:
    assert LOCAL.admit(authority)
    assert OPEN.admit(authority)


@pytest.mark.parametrize(
    "authority",
    [
        *("rebound.example", "rebound.example:8000", "127.0.0.1.rebound.example", "localhost.example", ""),
        *("notlocalhost", "192.168.1.5", "[2001:db8::5]:80", "user@localhost", "localhost:80:80", "[::1"),
        *("local host", "localhost/", "localhost:eighty", "0x7f000001", "2130706433", "127.1"),
    ],
)
def test_nothing_else_is_admitted_where_only_this_computer_may_ask(authority: str) -> None:
    assert not LOCAL.admit(authority)


@pytest.mark.parametrize("authority", ["192.168.1.5:8000", "[2001:db8::5]:80", "10.0.0.1"])
def test_where_others_may_ask_any_address_is_admitted_because_no_name_server_tells_it(authority: str) -> None:
    assert OPEN.admit(authority)


def test_a_name_is_admitted_once_it_was_allowed() -> None:
    assert OPEN.admit("Maps.Example.NET:443")
    assert OPEN.admit("maps.example.net.")
    assert not OPEN.admit("more.maps.example.net")
    assert not OPEN.admit("example.net")


@pytest.mark.parametrize("name", ["https://maps.example.net", "example.net:443", "*", "", "a b", "-x", "a/b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="write a name alone") as refused:
        HostNames.of("127.0.0.1", [name])
    assert str(refused.value).startswith(f"--allow-host {name} cannot be")
