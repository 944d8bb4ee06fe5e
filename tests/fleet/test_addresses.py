"""Two workers on hosts of their own, as far as the network can tell: network namespaces, which take root."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.fleet.records import assert_harvested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer


PORT: Final = 8080
"""The address of nginx in its own namespace, where nobody else listens."""


class Host(NamedTuple):
    """A network namespace."""

    name: str
    address: str
    """The address by which the others reach it."""

    @property
    def program(self) -> tuple[str, ...]:
        """Runs another one there."""
        return ("ip", "netns", "exec", self.name)


class Network(NamedTuple):
    """A site's host, and those of workers: each reaches the site, and nothing else.

    The cables lie between these hosts. This computer's own network stays as it is: a browser gives up what
    it is loading when that changes (ERR_NETWORK_CHANGED).
    """

    site: Host
    workers: list[Host]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def add_host(number: int, undo: ExitStack) -> str:
    """Returns its name. Its end of a cable goes with it, and the other end with that."""
    name = f"tileharvest-{os.getpid()}-{number}"
    ip("netns", "add", name)
    undo.callback(ip, "netns", "delete", name)
    return name


def add_worker(number: int, site: str, undo: ExitStack) -> Host:
    """Adds a host and its cable, with addresses that are for examples (RFC 5737), four for each cable."""
    name = add_host(number, undo)
    gateway, address = f"198.51.100.{4 * number + 1}", f"198.51.100.{4 * number + 2}"
    ip("-n", site, "link", "add", f"cable{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("-n", site, "address", "add", f"{gateway}/30", "dev", f"cable{number}")
    ip("-n", site, "link", "set", f"cable{number}", "up")
    ip("-n", name, "address", "add", f"{address}/30", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "route", "add", "default", "via", gateway)
    return Host(name, address)


@pytest.fixture
def network() -> Iterator[Network]:
    with ExitStack() as undo:
        try:
            site = add_host(0, undo)
            workers = [add_worker(number, site, undo) for number in (1, 2)]
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces can be made here: {error}")
        yield Network(Host(site, "198.51.100.5"), workers)


def test_a_site_is_visited_from_the_addresses_of_all_workers(
    network: Network,
    fleet_on: Callable[..., Fleet],
    redis: RedisServer,
    small: Rendering,
    nginx: Callable[..., Nginx],
) -> None:
    logs = "access_log access.log lines; access_log visitors.log combined;"
    server = nginx(small.folder, server=f"listen {PORT}; {logs}", through=network.site.program)
    # Files are the same from everywhere, and a socket is one.
    fleet = fleet_on(redis.socket_url)
    fleet.describe(f"http://{network.site.address}:{PORT}", requests_per_second=60)
    fleet.assert_ended_together(*[fleet.start(through=host.program) for host in network.workers])
    assert_harvested(fleet, small)
    server.await_turn()
    visitors = (server.workplace / "visitors.log").read_text(encoding="utf-8").splitlines()
    visits = Counter(line.split()[0] for line in visitors if ".png" in line)
    assert visits.keys() == {host.address for host in network.workers}
    assert min(visits.values()) > visits.total() / 10
    asked = Counter((line.method, line.path) for line in server.log() if line.path.endswith(".png"))
    assert set(asked.values()) == {1}
