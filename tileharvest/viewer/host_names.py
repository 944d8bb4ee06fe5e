"""The host names that a request to the viewer may have. Pure.

A browser lets a page read answers from the page's own host name. The owner of that name can let it mean
127.0.0.1 a moment later, and so read through a visitor's browser what only the visitor's computer may see.
That is DNS rebinding. The header Host has the name that the browser believes in, so the viewer refuses other
names than its own.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:/@\[\]]+))(?::(?P<port>\d{0,5}))?", re.ASCII
)
"""RFC 9110, section 7.2: a name or an address, and a port. Any port will do, because proxies and tunnels have
ports of their own."""
_NAME: Final = re.compile(r"(?!-)[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_LAST_PORT: Final = 65_535
_LOOPBACK: Final = "localhost"


def admission(host: str, more: Iterable[str] = ()) -> Callable[[str], bool]:
    """Returns a function that says whether a request may name a host, written as in the header Host:
    `127.0.0.1:8000`. The viewer listens on `host`.

    It may name `host` itself, the loopback, and the names of `--allow-host`, which are `more`. If the viewer
    listens to more than the loopback, any IP address will do, because no name server can give a number
    another meaning. Raises ConfigurationError for anything but a name in `more`, such as the address of a
    page.
    """
    names, takes_addresses = {host.lower()}, not is_loopback(host)
    for name in more:
        plain = name.lower().removeprefix("[").removesuffix("]").removesuffix(".")
        if _address(plain) is None and _NAME.fullmatch(plain) is None:
            raise ConfigurationError(
                f"--allow-host {name} cannot be: write a name alone, such as maps.example.net"
            )
        names.add(plain)

    def admits(authority: str) -> bool:
        named = _host_of(authority)
        if named is None:
            return False
        return named in names or is_loopback(named) or (takes_addresses and _address(named) is not None)

    return admits


def is_loopback(host: str) -> bool:
    """Returns whether a name or an address always means the computer itself (RFC 6761, section 6.3)."""
    address = _address(host)
    if address is not None:
        return address.is_loopback
    return host.lower() == _LOOPBACK or host.lower().endswith(f".{_LOOPBACK}")


def _host_of(authority: str) -> str | None:
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return None
    return (found["v6"] or found["name"]).lower().removesuffix(".")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
