"""`scrapy serve`, run as a user does."""

from __future__ import annotations

import re
import signal
import socket
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.project import Project
from tests.viewer.asking import HOST, Client
from tests.viewer.building import FIRST, MAP, World, picture, square
from tileharvest.tiles.grid import Tile

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


def test_a_large_picture_that_is_being_composed_does_not_hold_it(project: Project, world: World) -> None:
    world.harvest(FIRST, dict.fromkeys(square(0, 32), picture(size=256)))
    with served(project) as (process, client), socket.create_connection((HOST, client.port)) as asking:
        path = f"/api/v1/maps/{MAP}/composed/-5_32_32/{FIRST}.png?layer=day"
        asking.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # The answer to a later request tells that the first one is under way.
        assert client.get("/healthz").status == 200
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_port_that_is_taken_is_refused(project: Project) -> None:
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
        line = refusal(project, "--port", str(port), status=1)
    assert line.startswith(f"port {port} of 127.0.0.1 is in use, perhaps by another viewer")


@pytest.mark.parametrize("port", ["http", "", "-1", "65536", "80.0", "1" * 40, "８０"])
def test_what_is_no_port_is_refused(project: Project, port: str) -> None:
    line = refusal(project, f"--port={port}", status=2)
    assert line == f"--port {port} cannot be: write a number from 0 (any free port) to 65535"


@pytest.mark.parametrize("host", ["192.0.2.1", f"{'x' * 64}.invalid", ""])
# The second is longer than a part of a name can be, so that nobody is asked for it.
def test_a_host_that_is_not_this_computer_is_refused(project: Project, host: str) -> None:
    line = refusal(project, "--port", "0", f"--host={host}", status=2)
    assert line == f"--host {host} is no address of this computer"


def test_a_wrong_maps_file_is_refused(project: Project, world: World) -> None:
    world.maps_file.write_text("[ant")
    done = project.scrapy_from_nothing("serve")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "is not valid TOML" in line


def test_it_listens_where_it_is_told_to(project: Project) -> None:
    with project.running("serve", "--port=0", "--host=127.0.0.2") as process:
        line = process.stdout.readline()
        port = int(line.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.2", port)):
            assert line.startswith("the viewer is at http://127.0.0.2:")


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


def test_a_proxys_name_is_answered_once_it_is_allowed(project: Project, world: World) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: maps.example.net\r\nConnection: close\r\n\r\n"
    with served(project, "--allow-host", "maps.example.net", "--allow-host=other.example.net") as (_, client):
        assert client.send(request).status == 200
        assert client.send(request.replace(b"maps.", b"more.")).status == 421


def test_an_allowed_host_that_is_no_name_is_refused(project: Project) -> None:
    line = refusal(project, "--port", "0", "--allow-host", "https://example.net/", status=2)
    assert line == "--allow-host https://example.net/ cannot be: write a name alone, such as maps.example.net"
