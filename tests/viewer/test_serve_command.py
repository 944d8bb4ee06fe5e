"""`scrapy serve`, run as a user does."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final

import pytest
from scrapy.settings import Settings

from tests.end_to_end.project import Project
from tests.viewer.asking import HOST, Client
from tests.viewer.building import FIRST, MAP, World, picture
from tileharvest.commands.serve import viewer_of
from tileharvest.errors import ConfigurationError
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.server import listening, parse_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.forking import Forked

ANNOUNCED: Final = re.compile(r"the viewer is at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\n")
PATIENCE: Final = 240.0
"""Seconds to end in. It takes a tenth of one, but not on a computer that is busy with other tests."""


@pytest.fixture
def project(world: World) -> Project:
    world.describe()
    return Project(world.folder)


@contextmanager
def served(project: Project, *arguments: str) -> Iterator[tuple[Forked, Client]]:
    """A viewer on a free port, once it accepts connections; killed if it is still there at the end."""
    with project.running("serve", "--port", "0", *arguments) as process:
        announced = ANNOUNCED.fullmatch(process.stdout.readline())
        assert announced is not None, process.communicate(timeout=PATIENCE)
        yield process, Client(int(announced[1]))


def refusal(project: Project, *arguments: str, status: int) -> str:
    """The one line with which the command ends."""
    done = project.scrapy("serve", *arguments, check=False)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped_and_that_is_no_failure(
    project: Project, world: World, how: signal.Signals
) -> None:
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with served(project) as (process, client):
        assert [entry["name"] for entry in client.get("/api/v1/maps").json["maps"]] == [MAP]
        process.send_signal(how)
        output, errors = process.communicate(timeout=PATIENCE)
        assert (output, "error" in errors) == ("", False)
        assert process.returncode == 0


def test_a_port_that_is_taken_is_refused(project: Project) -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
        line = refusal(project, "--port", str(port), status=1)
    assert line.startswith(f"port {port} of 127.0.0.1 is in use, perhaps by another viewer")


def test_where_everybody_may_look_it_says_so_and_names_addresses_that_work(
    project: Project, world: World
) -> None:
    world.describe("ant")
    with project.running("serve", "--port=0", "--host=0.0.0.0") as process:
        line = process.stdout.readline()
        addresses = re.findall(r"http://([\d.]+):(\d+)/", line)
        assert ("127.0.0.1", addresses[0][1]) in addresses
        assert "0.0.0.0" not in line
        for host, port in addresses:
            with closing(HTTPConnection(host, int(port), timeout=PATIENCE)) as connection:
                connection.request("GET", "/api/v1/maps")
                assert connection.getresponse().status == 200
        others = [f"http://{host}:{port}/" for host, port in addresses if not host.startswith("127.")]
        process.terminate()
        _, words = process.communicate(timeout=PATIENCE)
    seen = "sees all that the viewer shows; it has no passwords"
    assert words == "".join(f"warning: everybody who reaches {one} {seen}\n" for one in others)


@pytest.mark.parametrize("port", ["http", "", "-1", "65536", "80.0", "1" * 40, "８０"])
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be: write a number from 0"):
        parse_port(port)


@pytest.mark.parametrize("host", ["192.0.2.1", f"{'x' * 64}.invalid", ""])
# The second is longer than a part of a name can be, so that nobody is asked for it.
def test_a_host_that_is_not_this_computer_is_refused(world: World, host: str) -> None:
    settings = Settings(
        {"TILEHARVEST_MAPS": world.maps_file, "TILEHARVEST_DATA": world.data, "DATABASE_URL": ""}
    )

    async def listen() -> None:
        with viewer_of(settings, ()) as application:
            async with listening(application, host, 0):
                pass

    with pytest.raises(ConfigurationError, match="is not an address of this computer"):
        asyncio.run(listen())
