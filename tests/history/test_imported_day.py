"""Days that are imported in any order, compared with harvests in the order of days."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import select

from tests.history.making import DAY, LATER, A, B, D, TileResult, began, empty, ended, found, image_of, record
from tileharvest.errors import HistoryError
from tileharvest.history.database import History
from tileharvest.history.harvests import begin
from tileharvest.history.imported_day import (
    DayRecord,
    ImportedDay,
    ImportedTile,
    imported_days,
    record_day,
)
from tileharvest.history.outlines import map_outline
from tileharvest.history.recorded_versions import story
from tileharvest.history.schema import (
    changes,
    harvests,
    layers,
    tiles,
    versions,
)
from tileharvest.history.site_files import SiteFile, keep_site_files, site_files_of
from tileharvest.history.summaries import harvest_summaries
from tileharvest.history.trust import last_full
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.versions import Validator

LAYERS = ("day", "night")
NOW = datetime(2026, 1, 2, 3, tzinfo=UTC)
CELLS = [Tile(0, 2 * x + 1, 2 * y + 1) for x in (-6, -4, 2) for y in range(2)] + [D]
Place = tuple[str, Tile]
State = dict[Place, bytes]
"""The images of a day. Tiles that are not named are not there."""


def random_days(seed: int, count: int = 7) -> dict[date, State]:
    """Returns a site's images on some days."""
    random = Random(seed)
    return {
        DAY + timedelta(days=2 * number): {
            (layer, tile): random.choice([b"one", b"two"])
            for layer in LAYERS
            for tile in CELLS
            if random.random() < 0.7
        }
        for number in range(count)
    }


def validator_of(body: bytes) -> Validator:
    return Validator(f'"{image_of(body).sha1[:8]}"')


def described(day: date) -> list[Layer]:
    return [Layer(name, Pyramid(8 if day < LATER else 9), "png") for name in LAYERS]


def whole_day(day: date, there: Mapping[Place, bytes], **more: Any) -> ImportedDay:
    named = [ImportedTile(*place, image_of(body), validator_of(body)) for place, body in there.items()]
    absent = [
        ImportedTile(layer, cell, None) for layer in LAYERS for cell in CELLS if (layer, cell) not in there
    ]
    kwargs: dict[str, Any] = {"unchanged": {}, "tiles": named + absent, **more}
    return ImportedDay(
        map_name="world",
        source="folder",
        day=day,
        imported=NOW,
        renderer="overviewer",
        layers=described(day),
        **kwargs,
    )


def harvested_day(
    history: History, day: date, state: Mapping[Place, bytes], known: dict[Place, bytes]
) -> None:
    """Harvests in the usual way, with outcomes that are computed here."""
    harvest = begin(history, "world", day.isoformat(), day, NOW, "overviewer", described(day))
    results = []
    for place in state.keys() | known.keys():
        body = state.get(place)
        image = None if body is None else image_of(body)
        if body is None:
            outcome = Outcome.GONE
        elif place not in known:
            outcome = Outcome.ADDED
        elif known[place] == body:
            outcome, image = Outcome.IGNORED, None
        else:
            outcome = Outcome.UPDATED
        validator = None if image is None or body is None else validator_of(body)
        results.append(TileResult(*place, outcome, image=image, validator=validator))
    record(harvest, results)
    harvest.finish(NOW, "finished")
    known.clear()
    known.update(state)


def rows_of(history: History) -> dict[str, list[Any]]:
    """All that the history says, without ids, and with days in place of harvests."""
    recorded = select(
        layers.c.name,
        *(c for c in versions.c if c.name not in {"id", "layer", "harvest"}),
        harvests.c.day.label("recorded"),
    ).join_from(versions, layers, layers.c.id == versions.c.layer)
    latest = select(layers.c.name, tiles.c.zoom, tiles.c.x, tiles.c.y, versions.c.day)
    queries = {
        "versions": recorded.join(harvests, harvests.c.id == versions.c.harvest),
        "tiles": latest.join_from(tiles, layers, layers.c.id == tiles.c.layer).join(
            versions, versions.c.id == tiles.c.version
        ),
        "changes": select(layers.c.name, *(c for c in changes.c if c.name != "layer")).join_from(
            changes, layers, layers.c.id == changes.c.layer
        ),
    }
    with history.reading() as connection:
        return {
            name: sorted((tuple(row) for row in connection.execute(query)), key=repr)
            for name, query in queries.items()
        }


def harvest_in_order(history: History, days: Mapping[date, State]) -> dict[str, list[Any]]:
    known: dict[Place, bytes] = {}
    for day in sorted(days):
        harvested_day(history, day, days[day], known)
    return rows_of(history)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("late", [4, 7])
def test_days_that_are_imported_in_any_order_give_what_harvests_in_their_order_give(
    history: History, seed: int, late: int
) -> None:
    """All of them, or those between others that were harvested."""
    days = random_days(seed)
    expected = harvest_in_order(history, days)
    empty(history)
    imported = Random(seed).sample(sorted(days), late)
    harvest_in_order(history, {day: state for day, state in days.items() if day not in imported})
    for day in imported:
        record_day(history, whole_day(day, days[day]))
    assert rows_of(history) == expected


@pytest.mark.parametrize("seed", range(2))
def test_a_day_that_is_recorded_again_takes_the_place_of_what_its_source_had(
    history: History, seed: int
) -> None:
    days, others = random_days(seed), random_days(seed + 1000)
    expected = harvest_in_order(history, days)
    empty(history)
    for state, states in (("first", others), ("second", days), ("second", days)):
        for day in Random(seed).sample(sorted(days), len(days)):
            record_day(history, whole_day(day, states[day], state=state))
    found = rows_of(history)
    assert found["versions"] == expected["versions"]
    assert found["changes"] == expected["changes"]
    assert imported_days(history, "world", "folder") == dict.fromkeys(days, "second")


def only(history: History, day: date, *named: ImportedTile, **more: Any) -> DayRecord:
    return record_day(history, whole_day(day, {}, unchanged=None, tiles=named, **more))


def of(tile: Tile, body: bytes | None, etag: str | None = None) -> ImportedTile:
    return ImportedTile("day", tile, None if body is None else image_of(body), Validator(etag))


def told(history: History, tile: Tile) -> list[tuple[date, str | None, str | None]]:
    """The versions of a tile: day, the first letters of the sha1, and ETag."""
    layer = next(one.id for one in map_outline(history, "world").layers if one.name == "day")
    return [
        (one.day, None if one.image is None else one.image.sha1[:4], one.validator.etag)
        for one in story(history, layer, tile)
    ]


def sha(body: bytes) -> str:
    return image_of(body).sha1[:4]


BEFORE = DAY - timedelta(days=10)
BETWEEN = DAY + timedelta(days=1)


def harvested(history: History, body: bytes = b"castle", etag: str = '"new"') -> None:
    harvest = began(history)
    record(harvest, [found("add", A, body, etag)])
    ended(harvest)


def test_a_version_moves_back_to_the_day_on_which_its_bytes_were_there_already(history: History) -> None:
    harvested(history)
    assert only(history, BEFORE, of(A, b"castle", '"old"')).counts == {Outcome.ADDED: 1}
    assert told(history, A) == [(BEFORE, sha(b"castle"), '"new"')]
    # It is what the harvest has found.
    assert harvest_summaries(history, "world")[1].counts == {Outcome.ADDED: 1}


def test_what_a_later_harvest_has_not_found_is_gone_on_its_day(history: History) -> None:
    harvested(history)
    only(history, BEFORE, of(B, b"hut"))
    assert [one[:2] for one in told(history, B)] == [(BEFORE, sha(b"hut")), (DAY, None)]


@pytest.mark.parametrize(("walk", "kept"), [("full", "a zone"), ("share", "everything")])
def test_a_later_harvest_that_did_not_ask_for_every_tile_says_nothing_of_what_it_did_not_record(
    history: History, walk: str, kept: str
) -> None:
    harvest = began(history)
    harvest.note_walk(walk, "for a test", kept=kept)
    record(harvest, [found("add", A)])
    ended(harvest)
    only(history, BEFORE, of(B, b"hut"), kept="everything")
    assert [one[:2] for one in told(history, B)] == [(BEFORE, sha(b"hut"))]


def test_what_a_harvest_found_on_the_same_day_stays(history: History) -> None:
    harvested(history)
    assert only(history, DAY, of(A, b"ruin"), of(B, b"hut")) == DayRecord({}, 2)
    assert [one[1] for one in told(history, A)] == [sha(b"castle")]
    assert told(history, B) == []


def test_the_site_files_that_a_harvest_read_on_the_same_day_stay(history: History) -> None:
    ended(began(history))
    its_own = {"http://map/config.js": SiteFile(Validator('"1"'), b"as harvested")}
    keep_site_files(history, "world", DAY, its_own)
    imported = {"http://map/config.js": SiteFile(Validator('"2"'), b"as imported")}
    only(history, DAY, of(A, b"ruin"), files=imported)
    only(history, DAY - timedelta(days=1), of(A, b"ruin"), files=imported)
    assert site_files_of(history, "world", DAY) == its_own
    assert site_files_of(history, "world", DAY - timedelta(days=1)) == imported


def test_another_etag_of_the_same_bytes_becomes_the_version_s_own(history: History) -> None:
    only(history, BEFORE, of(A, b"castle", '"1"'))
    for day, etag in ((DAY, '"2"'), (LATER, None)):
        assert only(history, day, of(A, b"castle", etag)).counts == {Outcome.IGNORED: 1}
    assert told(history, A) == [(BEFORE, sha(b"castle"), '"2"')]


def test_an_image_that_the_archive_has_lost_counts_as_a_failure(history: History) -> None:
    lost = ImportedTile("day", A, None, missing="the archive has no image of it")
    assert only(history, BEFORE, lost, of(B, b"hut")).counts == {Outcome.ADDED: 1, Outcome.FAILED: 1}
    assert told(history, A) == []


def test_nothing_is_imported_while_a_harvest_is_unfinished(history: History) -> None:
    began(history)
    with pytest.raises(HistoryError, match=r"map 'world' has an unfinished harvest.*run tileharvest harvest"):
        only(history, BEFORE, of(A, b"castle"))
    assert len(harvest_summaries(history, "world")) == 1


def test_after_an_import_no_full_walk_is_left_that_the_next_harvest_could_rest_on(history: History) -> None:
    harvest = began(history)
    harvest.note_walk("full", "first", kept="everything")
    ended(harvest)
    assert last_full(history, "world", "everything") == DAY
    only(history, LATER, of(A, b"castle"), kept="everything")
    assert last_full(history, "world", "everything") is None
