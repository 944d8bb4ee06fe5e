"""What the workers of a fleet leave behind, whatever database holds the history."""

from __future__ import annotations

from collections import Counter
from hashlib import sha1
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import create_engine, text

from tests.end_to_end.project import LayerTile, RecordedVersion
from tests.history.outcomes import RESULTS

if TYPE_CHECKING:
    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet


class Ended(NamedTuple):
    """A harvest, as the history has it."""

    day: str
    reason: str | None
    requests: int
    received_bytes: int
    stored_bytes: int
    counts: dict[str, int]
    """Tiles by outcome, as written when it ended."""


class Records(NamedTuple):
    """The history of the one map of a fleet, and the images."""

    versions: set[RecordedVersion]
    outcomes: dict[LayerTile, str]
    harvests: list[Ended]
    stored: dict[str, bytes]


def records(fleet: Fleet) -> Records:
    engine = create_engine(fleet.database_url)
    try:
        with engine.connect() as connection:

            def rows(statement: str, **values: Any) -> list[tuple[Any, ...]]:
                return [tuple(row) for row in connection.execute(text(statement), values)]

            return Records(
                versions={RecordedVersion(*row[:4], str(row[4]), *row[5:]) for row in rows(_VERSIONS)},
                outcomes={LayerTile(*row[:4]): row[4] for row in rows(_OUTCOMES)},
                harvests=[
                    Ended(str(day), *row, {outcome: int(tiles) for outcome, tiles in rows(_COUNTS, id=key)})
                    for key, day, *row in rows(_HARVESTS)
                ],
                stored={
                    name: body for name, body in fleet.project.stored().items() if not _is_leftover(name)
                },
            )
    finally:
        engine.dispose()


def assert_harvested(fleet: Fleet, rendering: Rendering) -> Ended:
    """The history has one harvest, the first of all, and it found what was published; nothing more. Returns
    the harvest."""
    found, images = records(fleet), rendering.images()
    missing = rendering.tiles(rendering.missing())
    assert found.outcomes == dict.fromkeys(images, "add") | dict.fromkeys(missing, "404")
    assert {version.tile: version.sha1 for version in found.versions} == {
        tile: sha1(image).hexdigest() for tile, image in images.items()
    }
    assert len(found.versions) == len(images)
    assert_stored(found, set(images.values()))
    (harvest,) = found.harvests
    assert harvest.reason == "finished"
    assert harvest.counts == Counter(found.outcomes.values())
    return harvest


def assert_stored(found: Records, images: set[bytes]) -> None:
    """Every image once, under its own name, and nothing else."""
    assert sorted(found.stored.values()) == sorted(images)
    assert all(PurePosixPath(name).stem == sha1(image).hexdigest() for name, image in found.stored.items())


def _is_leftover(name: str) -> bool:
    """The temporary files that killed writers leave have no names of their own."""
    return PurePosixPath(name).name.startswith(".")


_VERSIONS = (
    "SELECT name, zoom, x, y, day, sha1, extension, size, etag, last_modified"
    " FROM versions JOIN layers ON layers.id = versions.layer"
)
_OUTCOMES = RESULTS + "SELECT name, zoom, x, y, outcome FROM results JOIN layers ON layers.id = layer"
_HARVESTS = "SELECT id, day, reason, requests, received_bytes, stored_bytes FROM harvests ORDER BY id"
_COUNTS = "SELECT outcome, sum(tiles) FROM harvest_counts WHERE harvest = :id GROUP BY outcome"
