"""Films that the server makes of a rectangle, for browsers that cannot."""

from __future__ import annotations

import io
import json
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from tests.viewer.asking import serving
from tests.viewer.building import (
    BLUE,
    DAY_LAYER,
    FIRST,
    GREEN,
    MAP,
    RED,
    SECOND,
    THIRD,
    World,
    picture,
    square,
)
from tileharvest.export.target import Awaited
from tileharvest.history.database import History
from tileharvest.store.files import FileStore
from tileharvest.viewer import picture_replies
from tileharvest.viewer.replies import RefusedError
from tileharvest.viewer.served_maps import ServedMaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.viewer.asking import Client, Reply

FILM = f"/api/v1/maps/{MAP}/film.webp"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Green; the tile at the upper right turns blue, and then red."""
    world = World(tmp_path_factory.mktemp("world"))
    tiles = square(0, 2, -1, -1)
    world.harvest(FIRST, dict.fromkeys(tiles, picture(GREEN)))
    world.harvest(SECOND, {max(tiles): picture(BLUE)})
    world.harvest(THIRD, {max(tiles): picture(RED)})
    return world


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[Client]:
    with serving(world, most_filmed=300) as running:
        yield running


def film(client: Client, **query: Any) -> Reply:
    return client.get(FILM, {"layer": DAY_LAYER, "ground": "-2,-2,2,2", **query})


def colours(body: bytes) -> list[tuple[int, ...]]:
    """Of the upper right tile at the end of each day, in a film of 960 x 960 that shows 128 pixels of map."""
    found = []
    with Image.open(io.BytesIO(body)) as opened:
        for number in range(opened.n_frames):
            opened.seek(number)
            opened.load()
            pixel = opened.convert("RGB").getpixel((480 + 32, 480 - 32))
            assert isinstance(pixel, tuple)
            found.append(pixel)
    return found


def is_near(colour: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return max(abs(one - two) for one, two in zip(colour, other, strict=False)) <= 12


def test_a_film_shows_a_rectangle_through_time(client: Client) -> None:
    reply = film(client)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "image/webp")
    shown = colours(reply.body)
    assert is_near(shown[0], GREEN)
    assert any(is_near(colour, BLUE) for colour in shown)
    assert is_near(shown[-1], RED)
    again = client.get(FILM, {"layer": DAY_LAYER, "ground": "-2,-2,2,2"}, if_none_match=reply.headers["ETag"])
    assert again.status == 304


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({"ground": "-20,-20,20,20"}, 400, "shows 400 tiles, and films here show 300 at most"),
        ({"ground": "0,-40,2,40"}, 400, "shows 1,640 tiles, and films here show 300 at most"),
        ({"ground": "900,900,902,902"}, 400, "nothing was there in this area"),
        ({"from": THIRD, "to": FIRST}, 400, "the history begins on"),
        ({"layer": "none"}, 404, "none"),
    ],
)
def test_what_cannot_be_filmed_is_said(
    client: Client, query: dict[str, Any], status: int, words: str
) -> None:
    reply = film(client, **query)
    assert reply.status == status
    assert words in json.loads(reply.body)["error"]


def test_a_film_that_would_be_too_large_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_replies, "MOST_BYTES", 1000)
    reply = film(client, **{"from": SECOND})
    assert reply.status == 400
    assert "films here have 1.0 kB at most" in json.loads(reply.body)["error"]


def test_no_further_image_is_read_for_a_film_for_which_nobody_waits_any_more(world: World) -> None:
    """It is looked for somebody who waits before the first frame, and after each of the three."""
    names: set[str] = set()

    class Counted(FileStore):
        def named(self, name: str) -> bytes:
            names.add(name)
            return super().named(name)

    answers = iter(range(2))

    def nobody_waits() -> None:
        if next(answers, None) is None:
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "nobody waits")

    query = [("layer", DAY_LAYER), ("ground", "-2,-2,2,2")]
    with (
        History.open_read_only(f"sqlite:///{world.history_file}") as history,
        closing(
            ServedMaps(world.maps_file, world.data / "areas.toml", lambda: history, lambda _: 0)
        ) as served,
        pytest.raises(RefusedError, match="nobody waits"),
    ):
        picture_replies.film(served, Counted(world.data / "tiles"), MAP, query, 300, Awaited(nobody_waits))
    assert len(names) == 1


def test_a_viewer_makes_no_films_unless_somebody_says_so(world: World) -> None:
    with serving(world) as client:
        reply = film(client)
    assert reply.status == 403
    assert "tileharvest serve --films" in json.loads(reply.body)["error"]
