"""What is new: events as data, as pictures, and as feeds that other programs read."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import feedparser
import pytest
from PIL import Image

from tests.viewer.asking import Client, serving
from tests.viewer.building import DAY_LAYER, FIRST, GREEN, MAP, World, picture, square
from tileharvest.maps.permalink import permalink
from tileharvest.tiles.grid import Tile
from tileharvest.viewer.shared_places import in_words

API = f"/api/v1/maps/{MAP}"
DAYS = [FIRST + timedelta(days=number) for number in range(4)]
HOUSE = [Tile(0, 1, 1), Tile(0, 3, 1), Tile(0, 1, 3)]
FAR = Tile(0, 41, -39)
NEW = Tile(0, 9, 1)


def built(folder: Any) -> World:
    """A house that rises on two days, a far change between, and new land at last."""
    world = World(folder)
    world.describe()
    land = [*square(0, 4), FAR, Tile(0, 39, -39)]
    world.harvest(DAYS[0], dict.fromkeys(land, picture()))
    world.harvest(DAYS[1], dict.fromkeys(HOUSE[:2], picture(GREEN)))
    world.harvest(DAYS[2], {HOUSE[2]: picture(GREEN), FAR: picture(GREEN)})
    world.harvest(DAYS[3], {NEW: picture(GREEN)})
    return world


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(built(tmp_path_factory.mktemp("built"))) as running:
        yield running


def asked(client: Client, **more: Any) -> Any:
    question = {"layer": DAY_LAYER, "from": DAYS[0], "to": DAYS[-1], **more}
    return client.get(f"{API}/events", question).json


def counts(answer: Any) -> list[tuple[str, str, str, int]]:
    return [(one["first"], one["last"], one["kind"], one["tiles"]) for one in answer["events"]]


def test_a_period_has_its_events_with_most_tiles_first_all_or_those_of_an_area(client: Client) -> None:
    answer = asked(client)
    first, second, third, last = map(str, DAYS)
    house, new, far = (second, third, "changed", 3), (last, last, "new", 1), (third, third, "changed", 1)
    assert counts(answer) == [house, far, new]
    assert (answer["count"], answer["settled"], answer["first_asked"]) == (3, last, [first])
    assert counts(asked(client, ground="41,-39,41.5,-38.5")) == [far]


def test_a_rectangle_is_shown_on_a_day_and_on_two_side_by_side(client: Client) -> None:
    def shown(address: str, ground: str) -> Image.Image:
        reply = client.get(f"{API}/{address}.jpg", {"layer": DAY_LAYER, "ground": ground})
        assert (reply.status, reply.headers["Content-Type"]) == (200, "image/jpeg")
        return Image.open(io.BytesIO(reply.body)).convert("RGB")

    # Tiles of the test have 8 pixels, so a grid unit has 4.
    assert shown(f"ground/{DAYS[0]}", "1,0,3,3").size == (8, 12)
    both = shown(f"before/{DAYS[0]}/{DAYS[2]}", "0,0,4,4")
    (left, *_), (right, *_) = (both.getpixel((x, both.height - 20)) for x in (20, both.width - 200))
    assert (left > 200, right > 50) == (True, False)  # How red they are.


def entries(client: Client, **query: Any) -> list[Any]:
    parsed = feedparser.parse(client.get(f"{API}/events.atom", {"layer": DAY_LAYER, **query}).body)
    assert not parsed.bozo
    assert parsed.version == "atom10"
    return list(parsed.entries)


def test_a_feed_reader_finds_the_events_newest_first(client: Client) -> None:
    found = entries(client)
    assert [entry.tags[0].term for entry in found] == ["new", "changed", "changed"]
    assert len({entry.id for entry in found}) == 3
    for entry in found:
        # RFC 4287, 4.1.2: each has an id, a title and a moment, and without an author of its own the feed's.
        assert entry.id.startswith("urn:uuid:")
        assert entry.title
        assert datetime.fromisoformat(entry.updated).tzinfo == UTC


def test_an_entry_leads_to_both_days_at_its_place_and_shows_them(client: Client) -> None:
    entry = entries(client, ground="0,0,1,1")[0]
    house = asked(client)["events"][0]
    x, z = (int(entry.title.partition(f"{axis} ")[2].partition(",")[0]) for axis in "XZ")
    assert entry.link == permalink("http://127.0.0.1/", MAP, DAY_LAYER, DAYS[2], x, z, 0, DAYS[0])
    assert house["blocks"][0] <= x <= house["blocks"][2]
    assert f"/before/{DAYS[0]}/{DAYS[2]}.jpg?layer=day&amp;ground=0,0,4,4" in entry.content[0].value


def test_each_layer_area_and_language_has_a_feed_of_its_own(client: Client) -> None:
    layer, chinese = {"layer": DAY_LAYER}, {"language": "zh"}
    asked: list[dict[str, str]] = [{}, layer, {**layer, "ground": "0,0,4,4"}, chinese, layer | chinese]
    feeds = [feedparser.parse(client.get(f"{API}/events.atom", query).body) for query in asked]
    assert len({one.feed.id for one in feeds}) == len(asked)
    # What is written in English and in Chinese are two entries, to who reads both.
    first, second = ({entry.id for entry in feeds[at].entries} for at in (1, 4))
    assert first.isdisjoint(second)
    titles = [one.feed.title for one in feeds]
    assert (titles[0], titles[3]) == ("world: what is new", "world：新变化")
    assert titles[2].startswith("world: what is new around X ")


def test_an_event_that_grows_stays_the_same_event(world: World) -> None:
    world.harvest(DAYS[0], dict.fromkeys(square(0, 6), picture()))
    world.harvest(DAYS[1], {HOUSE[0]: picture(GREEN)})
    with serving(world) as client:
        (before,) = entries(client)
    world.harvest(DAYS[2], {HOUSE[1]: picture(GREEN), Tile(0, 11, 11): picture(GREEN)})
    with serving(world) as client:
        after = {entry.id: entry for entry in entries(client)}
    assert len(after) == 2
    assert "2 tiles" in after[before.id].title


def test_a_feed_leaves_out_a_day_that_is_still_harvested(world: World) -> None:
    world.harvest(DAYS[0], dict.fromkeys(square(0, 4), picture()))
    world.harvest(DAYS[1], {HOUSE[0]: picture(GREEN)}, finished=False)
    with serving(world) as client:
        assert entries(client) == []
        assert counts(asked(client)) == [(str(DAYS[1]), str(DAYS[1]), "changed", 1)]


def test_what_a_site_writes_breaks_no_feed_and_turns_no_words() -> None:
    """XML has no control characters, and no halves of surrogate pairs."""
    said = in_words("Layer: {layer}", {"layer": "a\x01\u202eb\ud800"})
    assert said == "Layer: a\\x01\\u202eb\\ud800"
