"""Two workers on hosts of their own, as far as the network can tell: network namespaces, which take root."""

from __future__ import annotations

import os
import socket
import subprocess
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.fleet.records import assert_harvested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer


class Host(NamedTuple):
    """A namespace that reaches this one, and nothing else."""

    name: str
    address: str
    gateway: str
    """This host, as seen from there."""

    @property
    def program(self) -> tuple[str, ...]:
        """Runs another one there."""
        return ("ip", "netns", "exec", self.name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def add_host(number: int, undo: ExitStack) -> Host:
    """With addresses that are for examples (RFC 5737), four for each host."""
    gateway, address = f"198.51.100.{4 * number + 1}", f"198.51.100.{4 * number + 2}"
    name, cable = f"tileharvest-{os.getpid()}-{number}", f"th{os.getpid()}-{number}"
    ip("netns", "add", name)
    # Its end of the cable goes with it, and the other end with that.
    undo.callback(ip, "netns", "delete", name)
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("address", "add", f"{gateway}/30", "dev", cable)
    ip("link", "set", cable, "up")
    ip("-n", name, "address", "add", f"{address}/30", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "route", "add", "default", "via", gateway)
    return Host(name, address, gateway)


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with ExitStack() as undo:
        try:
            made = [add_host(number, undo) for number in range(2)]
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces can be made here: {error}")
        yield made


def free_port() -> int:
    with socket.create_server(("", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_a_site_is_visited_from_the_addresses_of_all_workers(
    hosts: list[Host],
    fleet_on: Callable[..., Fleet],
    redis: RedisServer,
    small: Rendering,
    nginx: Callable[..., Nginx],
) -> None:
    port = free_port()
    logs = "access_log access.log lines; access_log visitors.log combined;"
    server = nginx(small.folder, server=f"listen {port}; {logs}")
    # Files are the same from everywhere, and a socket is one.
    fleet = fleet_on(redis.socket_url)
    fleet.describe(f"http://{hosts[0].gateway}:{port}", requests_per_second=60)
    fleet.assert_ended_together(*[fleet.start(through=host.program) for host in hosts])
    assert_harvested(fleet, small)
    server.await_turn()
    visitors = (server.workplace / "visitors.log").read_text(encoding="utf-8").splitlines()
    visits = Counter(line.split()[0] for line in visitors if ".png" in line)
    assert visits.keys() == {host.address for host in hosts}
    assert min(visits.values()) > visits.total() / 10
    asked = Counter((line.method, line.path) for line in server.log() if line.path.endswith(".png"))
    assert set(asked.values()) == {1}
