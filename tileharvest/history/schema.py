"""The tables of the history, the INSERTs for rows that may be there already, and versions as rows.

`versions` is kept for ever. `tiles` has one row for each tile with a version. The row points at the latest
one, so that a look-up costs the same however long the history grows. `blocks` has one row for each block of 8
x 8 tiles that was ever asked, with the results of the last harvest there: a mask of 64 bits for each outcome,
which `tiles.block` numbers. So counts are sums of bits, and stay exact although a result may be recorded more
than once. `changes` counts the versions of each block and day. A viewer that shows a whole map reads it
instead of the versions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    and_,
    bindparam,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from tileharvest.tiles.block import WHOLE
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version, is_image_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy import BindParameter, ColumnElement, Dialect, FromClause

    from tileharvest.tiles.block import Block

REVISION: Final = "0018"
"""The revision that this program reads and writes. Each change of the tables takes the next number."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment. It always has a time zone in Python, and is in UTC in the database.

    SQLite has no time zones, so it would return a naive time, which cannot be compared with others.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Mask(TypeDecorator[int]):
    """A mask of 64 bits. Databases have no whole numbers of 64 bits without a sign."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        return value if value is None or value < 1 << 63 else value - (1 << 64)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int:
        if not isinstance(value, int):
            raise ValueError(f"{value!r} is not a mask")
        return value & WHOLE


Row: TypeAlias = dict[str, Any]
"""The values of a row, or the parameters of a statement, by name."""

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


TILE: Final = ("layer", "zoom", "x", "y")
"""The columns that name a tile, in every table of tiles."""
BLOCK: Final = ("layer", "zoom", "column", "row")
"""The columns that name a block, in every table of blocks."""


def _table(name: str, *columns: Any) -> Table:
    """Returns a table of `metadata` whose rows are found by its key alone."""
    return Table(name, metadata, *columns, sqlite_with_rowid=False)


def _of(name: str) -> Column[int]:
    """Returns a column with the id of a map, a layer or a harvest."""
    return Column(name, Integer, ForeignKey(f"{name}s.id"), nullable=False)


def _key_of(name: str) -> Column[int]:
    """Returns a column with the id of a map, a layer or a harvest that is a part of the key."""
    return Column(name, Integer, ForeignKey(f"{name}s.id"), primary_key=True, autoincrement=False)


def _keyed_by(names: tuple[str, ...]) -> list[Column[int]]:
    """Returns new columns of a primary key that begins with a layer. A column can belong to one table
    only."""
    rest = (Column(name, Integer, primary_key=True, autoincrement=False) for name in names[1:])
    return [_key_of("layer"), *rest]


def _required(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _optional(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=True) for name in names]


def _counted(kind: Any, *names: str) -> list[Column[Any]]:
    """Returns columns of numbers or masks that are 0 at first."""
    return [Column(name, kind, nullable=False, default=0) for name in names]


def is_block(table: FromClause) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row is of the block `its_layer`, `its_zoom`, `its_column` and
    `its_row`."""
    return and_(*(table.c[name] == bindparam(f"its_{name}") for name in BLOCK))


def its_block(layer: int, block: Block) -> Row:
    """Returns the parameters of `is_block` that name this block."""
    return {"its_layer": layer, "its_zoom": block.zoom, "its_column": block.column, "its_row": block.row}


def is_tile(table: FromClause) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row is of the tile `its_layer`, `its_zoom`, `its_x` and `its_y`."""
    return and_(*(table.c[name] == bindparam(f"its_{name}") for name in TILE))


def its_tile(layer: int, zoom: int, x: int, y: int) -> Row:
    """Returns the parameters of `is_tile` that name this tile."""
    return {"its_layer": layer, "its_zoom": zoom, "its_x": x, "its_y": y}


def is_same_tile(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    """Returns the SQL that says whether two rows are of the same tile."""
    return and_(*(one.c[name] == other.c[name] for name in TILE))


revisions: Final = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
"""The revision of the history, in the table that Alembic reads, so that a later release can use it."""

maps: Final = Table(
    "maps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    UniqueConstraint("name"),
)


def is_of_map(table: FromClause, map_name: str | BindParameter[str]) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row, which has the id of a map, is of the map of this name."""
    return table.c.map == select(maps.c.id).where(maps.c.name == map_name).scalar_subquery()


layers: Final = Table(
    "layers",
    metadata,
    Column("id", Integer, primary_key=True),
    _of("map"),
    Column("name", Text, nullable=False),
    Column("factor", Integer, nullable=False),
    UniqueConstraint("map", "name"),
)
"""`factor` is the number of tiles of the next deeper zoom along a tile's edge. If it changes, the zooms below
0 until then move to a layer of their own."""

FINISHED: Final = "finished"
"""The reason of a harvest that ended with a result for every tile."""
PUSHED_WALK: Final = "pushed"
"""The walk of a harvest that asked only what a person had pushed after the segment's harvest was finished."""
IMPORTED_WALK: Final = "imported"
"""The walk of an imported day on which the state of every tile is known."""
CHANGES_WALK: Final = "changes"
"""The walk of an imported day of which only the changes are known."""
NOT_WALKED: Final = (PUSHED_WALK, IMPORTED_WALK, CHANGES_WALK)
"""The walks of harvests from which it does not follow what the next one costs and when it is due."""
IMPORTS: Final = (IMPORTED_WALK, CHANGES_WALK)
"""The walks of imported days, for which the site was not asked."""
PARTIAL: Final = (PUSHED_WALK, CHANGES_WALK)
"""The walks of finished harvests that do not know the state of every tile."""
GIT_WALK: Final = "git"
"""The walk of a harvest that knew every tile's state from git. It proves nothing about the host's times."""
MOVED: Final = "moved"
"""The reason of a harvest that no longer found the map at its address."""
INTERRUPTED: Final = "interrupted"
"""The reason of a harvest that was still unfinished when the map's next one began."""

harvests: Final = Table(
    "harvests",
    metadata,
    Column("id", Integer, primary_key=True),
    _of("map"),
    Column("segment", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("started", UtcDateTime, nullable=False),
    Column("ended", UtcDateTime, nullable=True),
    Column("renderer", Text, nullable=False),
    Column("reason", Text, nullable=True),
    *_counted(BigInteger, "requests", "received_bytes", "stored_bytes", "spared_bytes"),
    *_counted(Integer, "expected"),
    *_counted(Float, "seconds"),
    *_optional(Text, "stopped", "walk", "walk_reason", "kept"),
    CheckConstraint("(ended IS NULL) = (reason IS NULL)", name="end"),
)
"""Several harvests of one segment may exist; `reason` says why one ended, such as `finished`.

`stored_bytes` counts the images that the harvest put into the store and that were not there before.
`spared_bytes` counts known images that it did not fetch, because their ETag was unchanged. `seconds` is the
time worked by all processes together, without their pauses. `expected` is the number of tiles that were known
when it began.

`stopped` says why the last run ended before the harvest did, such as `budget: 1,000 requests`. It is null if
a run is under way, after a kill, and once the harvest is finished.

`walk` is `full` or `pruned`. It is `repaired` if a pruned walk has withdrawn a proof and asked for what it
had skipped; `pushed` if only pushed tiles were asked; `git` if git named every tile; `share` if empty
blocks were left out whose turn is on another day. The harvests of imported days have `imported` or `changes`.
`walk_reason` says why the harvest walks in this way; for an imported day it is the state of its source. Both
are null until the walk is decided.

`kept` says which zones and zooms the harvest was for, in a form that the caller chooses.
"""

Index("ix_harvests_map_day", harvests.c.map, harvests.c.day)


def is_finished(table: FromClause, *, but: Collection[str]) -> ColumnElement[bool]:
    """Returns the SQL that says whether a row of `harvests` is of a finished harvest with none of these
    walks."""
    return and_(table.c.reason == FINISHED, func.coalesce(table.c.walk, "full").not_in(but))


spending: Final = _table(
    "spending",
    _key_of("map"),
    Column("day", Date, primary_key=True),
    *_counted(BigInteger, "requests", "received_bytes", "stored_bytes", "spared_bytes"),
    *_counted(Float, "seconds"),
)
"""The costs of all harvests of a map on a day, by the clock in the map's time zone. A harvest can take
several days."""

Index(
    "ix_harvests_unfinished",
    harvests.c.map,
    unique=True,
    sqlite_where=harvests.c.ended.is_(None),
    postgresql_where=harvests.c.ended.is_(None),
)
# A map has at most one unfinished harvest, because to begin one ends the others.

harvest_layers: Final = _table(
    "harvest_layers",
    _key_of("harvest"),
    _key_of("layer"),
    Column("depth", Integer, nullable=False),
    Column("description", Text, nullable=False),
    Column("rendered", BigInteger, nullable=True),
)
"""The site's description of each layer at that harvest, as `outlines` writes it. `rendered` is in seconds
since 1970."""

harvest_counts: Final = _table(
    "harvest_counts",
    _key_of("harvest"),
    _key_of("layer"),
    Column("outcome", Text, primary_key=True),
    Column("tiles", Integer, nullable=False),
)
"""The counts of ended harvests. They are written at the end, because the next harvest overwrites the results
in `blocks`."""

_VERSION_ID: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only if the type is named INTEGER, which has eight bytes all the same."""

versions: Final = Table(
    "versions",
    metadata,
    Column("id", _VERSION_ID, primary_key=True),
    _of("layer"),
    *_required(Integer, "zoom", "x", "y"),
    Column("day", Date, nullable=False),
    *_optional(Text, "sha1", "extension"),
    Column("size", Integer, nullable=True),
    *_optional(Text, "etag", "last_modified"),
    _of("harvest"),
    UniqueConstraint("layer", "zoom", "x", "y", "day"),
    CheckConstraint("(sha1 IS NULL) = (extension IS NULL) AND (sha1 IS NULL) = (size IS NULL)", name="image"),
)
"""A version without a sha1 says that the tile was gone from that day on. `harvest` has recorded it last."""

VERSION: Final = (
    versions.c.day,
    versions.c.sha1,
    versions.c.extension,
    versions.c.size,
    versions.c.etag,
    versions.c.last_modified,
)
"""The columns that `version_of` takes, in its order."""

tiles: Final = _table(
    "tiles",
    *_keyed_by(TILE),
    Column("version", _VERSION_ID, ForeignKey("versions.id"), nullable=False),
)
"""The tiles that have versions. `version` is the tile's latest one."""

MASKS: Final = {
    Outcome.NOTHING: "empty",
    Outcome.IGNORED: "ignored",
    Outcome.NOT_MODIFIED: "not_modified",
    Outcome.UPDATED: "updated",
    Outcome.ADDED: "added",
    Outcome.REPLACED: "replaced",
    Outcome.GONE: "gone",
    Outcome.FAILED: "failed",
}
"""The column of `blocks` for each outcome that a tile's result can have."""

blocks: Final = _table(
    "blocks",
    *_keyed_by(BLOCK),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=True),
    *_counted(Mask, *MASKS.values(), "skips", "present", "reached", "failing"),
)
"""What the last harvest that asked in the block has found there. `harvest` is null if none is known.

Each outcome has a mask, and a tile is in one of them at most. `skips` are the unchanged tiles below which
that harvest asked nothing. The other masks do not depend on the harvest: `present` are the tiles whose latest
version is not gone, `failing` those whose last result is a failure, and `reached` those with a result of an
earlier harvest, since the last complete one that walked in full.

There is no index on `harvest`, because it would double the cost of recording an unchanged block. Counts, and
the search for tiles that are not asked yet, scan the map's blocks.
"""

failures: Final = _table(
    "failures",
    *_keyed_by(TILE),
    _of("harvest"),
    Column("reason", Text, nullable=False),
    Column("in_a_row", Integer, nullable=False),
)
"""The tiles whose last result is a failure, until a person forgets it. `harvest` has found it, and `reason`
says why. `in_a_row` is the number of harvests in a row in which the tile has failed. Harvests that did not
ask for it do not count."""

changes: Final = _table(
    "changes",
    *_keyed_by(TILE),
    Column("day", Date, primary_key=True),
    Column("tiles", Integer, nullable=False),
    Index("ix_changes_layer_zoom_day", "layer", "zoom", "day"),
)
"""`tiles` is the number of a block's 8 x 8 tiles of that zoom that have a version of that day, `gone` ones
too.

x and y are the centre of the tile three levels coarser that covers the block. The table follows from
`versions` and is written in the same transactions, so it is never behind. No row has 0 tiles.
"""

validators: Final = _table(
    "validators",
    *_keyed_by(BLOCK),
    _of("harvest"),
    *_counted(Mask, "seen", "there", "missing", "whole"),
    Column("packed", LargeBinary, nullable=False),
)
"""The validators of a block's tiles for the walk, as the server last sent new ones. Tiles at zooms that are
not kept have validators, too. Those in `versions` are others: of the GET, and only for images.

`packed` has the validators of the tiles that are `there`, as `remembered` packs them. `missing` are tiles
that were remembered and are not there any more; when a complete harvest ends, what is remembered of tiles
below them is forgotten, and so are they. `harvest` has written the row last, and `seen` are the tiles
of which it has written something. `whole` are the tiles below which everything was asked without a failure;
see `trust`.
"""

proofs: Final = _table(
    "proofs",
    _key_of("layer"),
    _of("harvest"),
    Column("day", Date, nullable=False),
    *_required(Integer, "pairs", "broken", "undated"),
    Column("span", Float, nullable=False),
    Column("withdrawn", Text, nullable=True),
    Column("withdrawn_day", Date, nullable=True),
    CheckConstraint("(withdrawn IS NULL) = (withdrawn_day IS NULL)", name="withdrawal"),
)
"""The proof of each layer by its last full walk, with the fields of `walk.proof.Proof`. `span` is in seconds.

`harvest` has written the row last: it gave the proof, or withdrew it. `withdrawn` says why a proof is not
valid any more. A layer that was walked without a proof may have a withdrawal with no pairs.
"""

change_indexes: Final = _table(
    "change_indexes",
    _key_of("layer"),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=True),
    Column("day", Date, nullable=True),
    Column("state", Text, nullable=True),
    Column("confirmed", Integer, nullable=False),
    Column("withdrawn", Text, nullable=True),
    Column("withdrawn_day", Date, nullable=True),
    Column("read_by", Integer, ForeignKey("harvests.id"), nullable=True),
    *_optional(Text, "read_state", "ground"),
    CheckConstraint("(withdrawn IS NULL) = (withdrawn_day IS NULL)", name="withdrawal"),
)
"""The change index of each layer as the last complete harvest has read it, and how far it is trusted, with
the fields of `walk.change_index.StoredIndex`. `day` is the day of the reading. `harvest` has written this
last: it read the index, or withdrew it. All is null if no complete harvest has read one.

`read_by` is the map's last harvest, which has read `read_state` before it asked for any tile. `ground` has
the tiles that may have changed by it, as `walk.change_index.ChangedGround` writes them, or is null if the
walk does not rest on the index. When that harvest is complete, `read_state` becomes `state`.
"""

site_files: Final = _table(
    "site_files",
    _key_of("map"),
    Column("url", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    *_optional(Text, "etag", "last_modified"),
    Column("body", LargeBinary, nullable=False),
)
"""The small files that say what a map's site has, compressed by zlib. The rows of a day are valid until the
next day with rows."""

BLOCK_LEVELS: Final = 3
"""A block of `changes` has the 8 x 8 tiles that lie this many levels below one tile, so there are up to 64
times fewer rows than versions. A page that shows the upper tile with 384 pixels shows the block's tiles with
48 each.
"""


insert_into: Final = insert
"""An INSERT that can say what happens to rows that are there already, by ON CONFLICT. SQLAlchemy has one for
each database, and writes that of PostgreSQL for SQLite in the same words as SQLite's own."""


@cache
def replace_into(table: Table, *keys: str) -> Insert:
    """Returns an INSERT of whole rows but for their ids. They take the place of rows with the same keys."""
    columns = [column.name for column in table.c if column.name != "id"]
    statement = insert_into(table).values({name: bindparam(name) for name in columns})
    replaced = {name: statement.excluded[name] for name in columns if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=replaced)


def version_of(row: Iterable[Any]) -> Version:
    """Returns the version of a row with the columns of `VERSION`. Raises ValueError and TypeError for
    impossible values."""
    day, sha1, extension, size, etag, last_modified = row
    if sha1 is None:
        return Version(day, None, Validator(etag, last_modified))
    # The table makes sure that all three are null or none is.
    if not is_image_name(f"{sha1}.{extension}") or size <= 0:
        raise ValueError(f"'{sha1}.{extension}' of {size} bytes is not an image")
    return Version(day, Image(sha1, extension, size), Validator(etag, last_modified))


def version_row(place: tuple[int, int, int, int], version: Version, harvest: int) -> Row:
    """Returns the row of a tile's version, but for its id, as drivers take it. `place` is the layer's id,
    zoom, x and y."""
    image, validator = version.image, version.validator
    its_image = (None, None, None) if image is None else (image.sha1, image.extension, image.size)
    row = *place, version.day.isoformat(), *its_image, validator.etag, validator.last_modified, harvest
    return dict(zip(versions.c.keys()[1:], row, strict=True))
