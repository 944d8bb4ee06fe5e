"""Values for tests of the history."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from functools import cache
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from tileharvest.history.blocks import FoundBlock
from tileharvest.history.costs import NO_COST, Cost
from tileharvest.history.database import History
from tileharvest.history.harvests import HarvestRecord, begin
from tileharvest.history.schema import metadata, revisions
from tileharvest.tiles.block import Block, bit_of, blocks_of, mask_of, place_of
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Verdict
from tileharvest.tiles.versions import Image, Validator

DAY = date(2021, 2, 13)
LATER = date(2021, 2, 16)
START = datetime(2021, 2, 13, 6, tzinfo=UTC)
END = datetime(2021, 2, 13, 7, tzinfo=UTC)
LAYER = "day"
A, B, C, D = Tile(0, 1, 1), Tile(0, 3, 1), Tile(0, 1, -1), Tile(-1, 2, 2)
EVERYWHERE = {LAYER: [TileRange(0, -1023, 1023, -1023, 1023), TileRange(-1, -1022, 1022, -1022, 1022)]}
_NUMBERED = [table.name for table in metadata.sorted_tables if "id" in table.c]
_EMPTYING = [
    f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables) if table is not revisions
]
_RESTARTING = [f"ALTER SEQUENCE {name}_id_seq RESTART" for name in _NUMBERED]
"""SQLite's ids begin anew by themselves."""
RECORDED = [outcome for outcome in Outcome if outcome is not Outcome.SKIPPED]
"""The outcomes that a tile's result can have."""
WITH_IMAGE = {Outcome.ADDED, Outcome.UPDATED, Outcome.REPLACED}


def put_empty_history(file: Path) -> None:
    """Makes an empty history there, unless there is a file. The tables are created only once."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_empty_history())


@cache
def _empty_history() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "history.sqlite")
        History.open(f"sqlite:///{file}").close()
        return file.read_bytes()


def image_of(body: bytes) -> Image:
    return Image(sha1(body).hexdigest(), "png", len(body))


class TileResult(Struct, frozen=True):
    """What is found of one tile, by the names of `Verdict` and `FoundBlock`."""

    layer: str
    tile: Tile
    outcome: Outcome
    image: Image | None = None
    body: bytes | None = None
    validator: Validator | None = None
    reason: str | None = None
    seen: Validator | None = None
    skips: bool = False
    doubts: bool = False
    is_kept: bool = True


def found_blocks(results: Iterable[TileResult]) -> Iterator[tuple[Block, FoundBlock]]:
    several = list(results)
    for place in dict.fromkeys(place_of(one.layer, one.tile) for one in several):
        its = {bit_of(one.tile): one for one in several if place_of(one.layer, one.tile) == place}
        there = FoundBlock(is_kept=all(one.is_kept for one in its.values()))
        for bit, one in its.items():
            there.add(bit, Verdict(one.outcome, one.image, one.validator, one.reason))
            there.seen |= {} if one.seen is None else {bit: one.seen}
            there.skips |= one.skips << bit
            there.doubts |= one.doubts << bit
        yield Block(*place, mask_of(its)), there


def tiles_of(blocks: Iterable[Block]) -> list[Tile]:
    return [tile for block in blocks for _, tile in block.tiles()]


def found(outcome: Outcome | str, tile: Tile = A, body: bytes = b"first", etag: str = '"1"') -> TileResult:
    """A result as a spider would give it; body and ETag are used only where the outcome has them."""
    outcome = Outcome(outcome)
    has_image = outcome in WITH_IMAGE
    return TileResult(
        LAYER,
        tile,
        outcome,
        image=image_of(body) if has_image else None,
        body=body if has_image else None,
        validator=Validator(etag) if has_image or outcome is Outcome.NOT_MODIFIED else None,
        reason="500 Internal Server Error" if outcome is Outcome.FAILED else None,
    )


def began(
    history: History,
    day: date = DAY,
    *,
    segment: str | None = None,
    name: str = "world",
    again: bool = False,
    pushed: bool = False,
) -> HarvestRecord:
    return begin(
        history,
        map_name=name,
        segment=segment or day.isoformat(),
        day=day,
        started=datetime(day.year, day.month, day.day, 6, tzinfo=UTC),
        renderer="overviewer",
        layers=[Layer(LAYER, Pyramid(10), "png")],
        again=again,
        pushed=pushed,
    )


def record(harvest: HarvestRecord, results: Iterable[TileResult], cost: Cost = NO_COST) -> None:
    """Records the results, of which no tile has two, block by block in one transaction."""

    def write(connection: Connection) -> None:
        for number, (block, found) in enumerate(found_blocks(results)):
            harvest.record_block(connection, block, found, NO_COST if number else cost)

    harvest.history.write(write)


def empty(history: History) -> None:
    """Its ids begin anew. To make a new database on a server would take fifty times as long."""

    def write(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("; ".join(_EMPTYING + _RESTARTING))
        else:
            for statement in _EMPTYING:
                connection.exec_driver_sql(statement)

    history.write(write)


def ended(harvest: HarvestRecord, *, reason: str = "finished") -> None:
    harvest.finish(END, reason)


OLD, NEW = "Sat, 13 Feb 2021 06:00:00 GMT", "Sat, 13 Feb 2021 07:00:00 GMT"
UPPER = Tile(-2, 4, 4)
"""A tile of a zoom that is not kept. D lies below it, and A and B below D."""
THIRD = date(2021, 2, 20)


def seen(outcome: str, tile: Tile, last_modified: str | None = OLD, etag: str | None = '"1"') -> TileResult:
    kept = tile.zoom > UPPER.zoom
    return replace(found(outcome, tile), seen=Validator(etag, last_modified), is_kept=kept)


def skipping(tile: Tile) -> TileResult:
    return replace(found("ign", tile), skips=True, is_kept=tile.zoom > UPPER.zoom)


def mark(harvest: HarvestRecord, tile: Tile) -> tuple[str | None, str | None, bool] | None:
    """What is remembered of a tile, and whether it is trusted."""
    (block,), bit = blocks_of(LAYER, [tile]), bit_of(tile)
    known = harvest.look_up(block)
    return (*known.remembered[bit], bool(known.trusted >> bit & 1)) if bit in known.remembered else None


def first_harvest(history: History) -> HarvestRecord:
    """One that has seen the pyramid and is not finished."""
    harvest = began(history)
    record(harvest, [seen("ign", UPPER, NEW), seen("add", D, NEW), seen("add", A), seen("add", B, NEW)])
    return harvest
