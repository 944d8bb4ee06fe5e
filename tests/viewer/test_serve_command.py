"""`tileharvest serve`, run as a user does."""

import asyncio
import re
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Final

import pytest
from scrapy.settings import Settings

from tests.viewer.asking import HOST, Client
from tests.viewer.building import FIRST, MAP, World, picture
from tileharvest.commands.serve import viewer_of
from tileharvest.errors import ConfigurationError
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.server import admission, listening, parse_ancestors, parse_port

ANNOUNCED: Final = re.compile(r"the viewer is at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\n")
PATIENCE: Final = 240.0
"""Seconds to end in. It takes a tenth of one, but not on a computer that is busy with other tests."""
OPEN: Final = (
    "warning: everybody who reaches this computer sees all that the viewer shows; it has no passwords\n"
)


@pytest.mark.parametrize(
    ("host", "how", "words"), [("127.0.0.1", signal.SIGINT, ""), ("0.0.0.0", signal.SIGTERM, OPEN)]
)
def test_it_serves_until_it_is_stopped_and_warns_where_everybody_may_look(
    world: World, host: str, how: signal.Signals, words: str
) -> None:
    world.describe()
    world.harvest(FIRST, {Tile(0, 1, 1): picture()})
    with world.running("serve", "--port=0", f"--host={host}") as process:
        announced = ANNOUNCED.fullmatch(process.stdout.readline())
        assert announced is not None, process.communicate(timeout=PATIENCE)
        listed = Client(int(announced[1])).get("/api/v1/maps").json["maps"]
        assert [entry["name"] for entry in listed] == [MAP]
        process.send_signal(how)
        assert process.communicate(timeout=PATIENCE) == ("", words)
        assert process.returncode == 0


def test_a_port_that_is_taken_is_refused(world: World) -> None:
    world.describe()
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
        done = world.scrapy("serve", "--port", str(port), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    line = f"error: port {port} of 127.0.0.1 is in use, perhaps by another viewer"
    assert done.stderr.splitlines()[-1].startswith(line)


FORUMS: Final = ["https://forum.example.net", "http://a.example:8080", "https://*.example.net"]


@pytest.mark.parametrize(
    ("option", "parse", "wrong", "words"),
    [
        ("--port", parse_port, ["http", "", "-1", "65536", "1" * 40, "８０"], "write a number from 0"),
        (
            "--allow-host",
            lambda name: admission(HOST, [name]),
            ["https://maps.example.net", "example.net:443", "*", "", "-x"],
            "write a name alone",
        ),
        (
            "--frame-ancestors",
            lambda site: parse_ancestors([*FORUMS, site]),
            ["forum.example.net", "*", "https://a.example; x", ""],
            "write a site such as",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_option(
    option: str, parse: Callable[[str], object], wrong: list[str], words: str
) -> None:
    for value in wrong:
        with pytest.raises(ConfigurationError, match=words) as refused:
            parse(value)
        assert str(refused.value).startswith(f"{option} {value} cannot be")


@pytest.mark.parametrize("host", ["192.0.2.1", f"{'x' * 64}.invalid"])
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
