"""The tables of the history, and the INSERTs for rows that may be there already.

`versions` is kept for ever. `tiles` has one row per tile that was ever asked. The row points at the latest
version, so that a look-up costs the same however long the history grows. It also holds what the last harvest
found, so that counts stay exact although a result may be recorded more than once. `changes` counts the
versions of each block of tiles and day: a viewer that shows a whole map asks it instead of the versions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
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
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    and_,
    bindparam,
    text,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from datetime import date

    from sqlalchemy import ColumnElement, Dialect, FromClause

REVISION: Final = "0012"
"""The revision that this program reads and writes: the newest file in `migrations/versions`."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: always with a time zone in Python, and in UTC in the database.

    SQLite has no time zones. It would return a naive time, which can be compared with no other.
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


def _keyed_by_tile() -> list[Column[int]]:
    """Returns the columns of a primary key that names a tile. They are new: a column belongs to one table."""
    return [
        Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
        *(Column(name, Integer, primary_key=True, autoincrement=False) for name in TILE[1:]),
    ]


def is_tile(table: FromClause) -> ColumnElement[bool]:
    """Says of a row whether it is of the tile handed in as `its_layer`, `its_zoom`, `its_x` and `its_y`."""
    return and_(*(table.c[name] == bindparam(f"its_{name}") for name in TILE))


def its_tile(layer: int, zoom: int, x: int, y: int) -> Row:
    """Returns the parameters of `is_tile` that name this tile."""
    return {"its_layer": layer, "its_zoom": zoom, "its_x": x, "its_y": y}


def is_same_tile(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    """Says of two rows whether they are of the same tile."""
    return and_(*(one.c[name] == other.c[name] for name in TILE))


maps: Final = Table(
    "maps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    UniqueConstraint("name"),
)

layers: Final = Table(
    "layers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("map", Integer, ForeignKey("maps.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("factor", Integer, nullable=False, server_default=text("2")),
    UniqueConstraint("map", "name"),
)
"""`factor` tells how many tiles of the next deeper zoom lie along a tile's edge; it never changes."""

FINISHED: Final = "finished"
"""The reason of a harvest that ended with a result for every tile."""
PUSHED_WALK: Final = "pushed"
"""The walk of a harvest that asked only what a person had pushed after the segment's harvest was finished."""
IMPORTED_WALK: Final = "imported"
"""The walk of a day that was imported whole: every tile's state on it is known."""
CHANGES_WALK: Final = "changes"
"""The walk of an imported day of which only what had changed is known."""
NOT_WALKED: Final = (PUSHED_WALK, IMPORTED_WALK, CHANGES_WALK)
"""The walks of harvests that tell nothing of what the next one costs, and when it is due."""
GIT_WALK: Final = "git"
"""The walk of a harvest that was told by git what every tile is. It proves nothing of the host's times."""
INTERRUPTED: Final = "interrupted"
"""The reason of a harvest that was still unfinished when the map's next one began."""

harvests: Final = Table(
    "harvests",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("map", Integer, ForeignKey("maps.id"), nullable=False),
    Column("segment", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("started", UtcDateTime, nullable=False),
    Column("ended", UtcDateTime, nullable=True),
    Column("renderer", Text, nullable=False),
    Column("reason", Text, nullable=True),
    Column("requests", BigInteger, nullable=False),
    Column("received_bytes", BigInteger, nullable=False),
    # With a default, because without one SQLite adds a column only by rebuilding the table.
    Column("stored_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("expected", Integer, nullable=False, server_default=text("0")),
    Column("seconds", Float, nullable=False, server_default=text("0")),
    Column("spared_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("stopped", Text, nullable=True),
    Column("walk", Text, nullable=True),
    Column("walk_reason", Text, nullable=True),
    Column("kept", Text, nullable=True),
    CheckConstraint("(ended IS NULL) = (reason IS NULL)", name="end"),
)
"""Several harvests of one segment may exist; `reason` says why one ended, such as `finished`.

`stored_bytes` counts the images that the harvest put into the store and that were not there before.
`spared_bytes` counts known images that it did not fetch, because their ETag was unchanged. `seconds` is the
time worked by all processes together, without their pauses. `expected` is how many tiles were known when it
began. These are 0 for harvests of releases that did not note them. While a harvest runs, `requests` and
`received_bytes` are a little higher than what was asked: see `costs.Traffic`.

`stopped` says why the last run ended before the harvest did, such as `budget: 1,000 requests`. It is null
while a run goes on, after a kill, and once the harvest has ended.

`walk` is `full`, `pruned`, or `repaired`: then a pruned walk has withdrawn a proof and asked for what it had
skipped; or `pushed`: then only what a person had pushed was asked. `imported` and `changes` were not asked
but imported. `walk_reason` says why the walk began so; of an imported day, which state of its source it has.
Both are null for releases that knew only the full walk.
`kept` says which zones and zooms the harvest was for, in a form that the caller chooses.
"""

Index("ix_harvests_map_day", harvests.c.map, harvests.c.day)

spending: Final = Table(
    "spending",
    metadata,
    Column("map", Integer, ForeignKey("maps.id"), primary_key=True, autoincrement=False),
    Column("day", Date, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("received_bytes", BigInteger, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),
    Column("spared_bytes", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""What all harvests of a map have cost on a day, by the clock in the map's time zone: a harvest can take
several days. Releases that did not note this have put all costs on the day of the harvest."""

Index(
    "ix_harvests_unfinished",
    harvests.c.map,
    unique=True,
    sqlite_where=harvests.c.ended.is_(None),
    postgresql_where=harvests.c.ended.is_(None),
)
# At most one unfinished harvest per map, and so per segment too: beginning one ends the others.

batches: Final = Table(
    "batches",
    metadata,
    Column("harvest", Integer, ForeignKey("harvests.id"), primary_key=True, autoincrement=False),
    Column("worker", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""The last batch that each process recorded, for a history on a server. When a connection is lost with the
answer to a commit, the batch is recorded again: this tells whether it was recorded the first time.
"""

harvest_layers: Final = Table(
    "harvest_layers",
    metadata,
    Column("harvest", Integer, ForeignKey("harvests.id"), primary_key=True, autoincrement=False),
    Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
    Column("depth", Integer, nullable=False),
    Column("image_extension", Text, nullable=False),
    Column("tile_width", Integer, nullable=False),
    Column("tile_height", Integer, nullable=False, server_default=text("0")),
    Column("north_direction", Integer, nullable=False),
    Column("world", Text, nullable=True),
    Column("background", Text, nullable=True),
    Column("spawn_x", Integer, nullable=True),
    Column("spawn_y", Integer, nullable=True),
    Column("spawn_z", Integer, nullable=True),
    Column("rendered", BigInteger, nullable=True),
    Column("projection", Text, nullable=True),
    sqlite_with_rowid=False,
)
"""What the site said about each layer at that harvest; `rendered` in seconds since 1970, `projection` as JSON
has a `tiles.projection.Projection`."""

harvest_counts: Final = Table(
    "harvest_counts",
    metadata,
    Column("harvest", Integer, ForeignKey("harvests.id"), primary_key=True, autoincrement=False),
    Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
    Column("outcome", Text, primary_key=True),
    Column("tiles", Integer, nullable=False),
    sqlite_with_rowid=False,
)
"""Written when a harvest ends, because the next one takes the rows of `tiles`."""

_VERSION_ID: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the type has this name; it has eight bytes all the same."""

versions: Final = Table(
    "versions",
    metadata,
    Column("id", _VERSION_ID, primary_key=True),
    Column("layer", Integer, ForeignKey("layers.id"), nullable=False),
    Column("zoom", Integer, nullable=False),
    Column("x", Integer, nullable=False),
    Column("y", Integer, nullable=False),
    Column("day", Date, nullable=False),
    Column("sha1", Text, nullable=True),
    Column("extension", Text, nullable=True),
    Column("size", Integer, nullable=True),
    Column("etag", Text, nullable=True),
    Column("last_modified", Text, nullable=True),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=False),
    UniqueConstraint("layer", "zoom", "x", "y", "day"),
    CheckConstraint("(sha1 IS NULL) = (extension IS NULL) AND (sha1 IS NULL) = (size IS NULL)", name="image"),
)
"""A version without a sha1 says that the tile was gone from that day on. `harvest` recorded it last."""

VERSION: Final = (
    versions.c.day,
    versions.c.sha1,
    versions.c.extension,
    versions.c.size,
    versions.c.etag,
    versions.c.last_modified,
)
"""In the order in which `version_of` takes them."""

tiles: Final = Table(
    "tiles",
    metadata,
    *_keyed_by_tile(),
    Column("version", _VERSION_ID, ForeignKey("versions.id"), nullable=True),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=True),
    Column("outcome", Text, nullable=True),
    Column("reason", Text, nullable=True),
    # Last, where a migration adds it.
    Column("failures", Integer, nullable=False, server_default=text("0")),
    sqlite_with_rowid=False,
)
"""`version` is the latest one. `harvest` is the last with a result for the tile, and `outcome` that result.

`harvest` and `outcome` are null when the result was taken back: a `gone` of a harvest whose map had moved.
`reason` says why a `fail` is one. `failures` says in how many harvests in a row the tile has failed; harvests
that did not ask for it do not count, and any other outcome makes it 0.

There is no index on `harvest`: it would double the cost of recording an unchanged tile. It could serve counts
and what is not asked yet. Those are asked a few times per harvest, and may cost a scan of the map's tiles.
"""

changes: Final = Table(
    "changes",
    metadata,
    *_keyed_by_tile(),
    Column("day", Date, primary_key=True),
    Column("tiles", Integer, nullable=False),
    Index("ix_changes_layer_zoom_day", "layer", "zoom", "day"),
    sqlite_with_rowid=False,
)
"""How many of a block's 8 x 8 tiles of that zoom have a version of that day; `gone` ones too.

x and y are the centre of the tile three levels coarser that covers the block. The table follows from
`versions` and is written in the same transactions, so it is never behind. No row has 0 tiles.
"""

validators: Final = Table(
    "validators",
    metadata,
    *_keyed_by_tile(),
    Column("etag", Text, nullable=True),
    Column("last_modified", Text, nullable=True),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=False),
    Column("whole", Boolean, nullable=False),
    Column("skipped", Integer, ForeignKey("harvests.id"), nullable=True),
    sqlite_with_rowid=False,
)
"""What the server said of a tile when it last said something new, for the walk. Tiles at zooms that are not
kept have rows too. `versions` has other values: those of the GET, and only for images.

Both are null for a tile that is not there. `harvest` wrote the row last. `whole` says whether it, or a later
one, has asked everything below without a failure; see `trust`. `skipped` is the last harvest in which the
tile was unchanged and what lies below it was not asked.
"""

proofs: Final = Table(
    "proofs",
    metadata,
    Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=False),
    Column("day", Date, nullable=False),
    Column("pairs", Integer, nullable=False),
    Column("broken", Integer, nullable=False),
    Column("undated", Integer, nullable=False),
    Column("span", Float, nullable=False),
    Column("withdrawn", Text, nullable=True),
    Column("withdrawn_day", Date, nullable=True),
    CheckConstraint("(withdrawn IS NULL) = (withdrawn_day IS NULL)", name="withdrawal"),
    sqlite_with_rowid=False,
)
"""What the last full walk of each layer told of its times, as `walk.proof.Proof` has it; `span` in seconds.

`harvest` wrote the row last: the one that gave the proof, or the one that withdrew it. `withdrawn` then says
why it is not valid any more. A layer that was walked without a proof may have a withdrawal with no pairs.
"""

change_indexes: Final = Table(
    "change_indexes",
    metadata,
    Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
    Column("harvest", Integer, ForeignKey("harvests.id"), nullable=False),
    Column("day", Date, nullable=False),
    Column("state", Text, nullable=False),
    Column("confirmed", Integer, nullable=False),
    Column("withdrawn", Text, nullable=True),
    Column("withdrawn_day", Date, nullable=True),
    CheckConstraint("(withdrawn IS NULL) = (withdrawn_day IS NULL)", name="withdrawal"),
    sqlite_with_rowid=False,
)
"""What the last complete harvest has read of each layer's change index, and how far the index is trusted, as
`walk.change_index.StoredIndex` has it. `day` is that of the reading.

`harvest` wrote the row last: the one that has read it, or the one that withdrew it.
"""

index_readings: Final = Table(
    "index_readings",
    metadata,
    Column("harvest", Integer, ForeignKey("harvests.id"), primary_key=True, autoincrement=False),
    Column("layer", Integer, ForeignKey("layers.id"), primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("ground", Text, nullable=True),
    sqlite_with_rowid=False,
)
"""What the map's last harvest has read of the change index of each layer before it asked for any tile.

`ground` are the tiles that may have changed by it, as `walk.change_index.ChangedGround` writes them. It is
null where the walk does not rest on the index. The rows of a harvest that is complete go into
`change_indexes`.
"""

site_bodies: Final = Table(
    "site_bodies",
    metadata,
    Column("sha1", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""What was in those files, each once, compressed by zlib."""

site_files: Final = Table(
    "site_files",
    metadata,
    Column("map", Integer, ForeignKey("maps.id"), primary_key=True, autoincrement=False),
    Column("url", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("etag", Text, nullable=True),
    Column("last_modified", Text, nullable=True),
    Column("sha1", Text, ForeignKey("site_bodies.sha1"), nullable=True),
    sqlite_with_rowid=False,
)
"""The small files that say what a map's site has, from the day on which the site sent them so. A row without
a sha1 says that the file was not read any more from that day on."""

unnamed_images: Final = Table(
    "unnamed_images",
    metadata,
    Column("name", Text, primary_key=True),
    Column("noted", UtcDateTime, nullable=True),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""Images that no version names any more, by the names that the store has for them. How they are removed is
told in `unnamed_images.py`. `noted` is null until the next clean-up."""

identity: Final = Table("identity", metadata, Column("name", Text, primary_key=True), sqlite_with_rowid=False)
"""At most one row: what names this history in the stores that it uses."""

BLOCK_LEVELS: Final = 3
"""A block of `changes` holds the 8 x 8 tiles that lie this many levels below one tile. So there are up to 64
times fewer rows than versions. Where the tile is shown with 384 pixels, each of
the block's tiles is as small as 48.
"""


def insert_into(table: Table) -> Insert:
    """Returns an INSERT that can say what happens to rows that are there already, by ON CONFLICT.

    SQLite has taken this clause from PostgreSQL. SQLAlchemy writes its PostgreSQL form for both, which a test
    compares with its SQLite form.
    """
    return insert(table)


@cache
def replace_into(table: Table, *keys: str) -> Insert:
    """Returns an INSERT of whole rows but for their ids. They take the place of rows with the same keys."""
    columns = [column.name for column in table.c if column.name != "id"]
    statement = insert_into(table).values({name: bindparam(name) for name in columns})
    replaced = {name: statement.excluded[name] for name in columns if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=replaced)


def version_of(
    day: date | None,
    sha1: str | None,
    extension: str | None,
    size: int | None,
    etag: str | None,
    last_modified: str | None,
) -> Version:
    """Returns the version that a row of `VERSION` holds, taken by position.

    By name it would cost twice as much, and it is done once per known tile and harvest. Raises ValueError and
    TypeError for what cannot be.
    """
    if day is None:
        raise ValueError("a tile without the version that it names")
    # The table lets all three be null or none; the image refuses anything else.
    image = None if sha1 is None else Image(sha1, extension or "", size or 0)
    return Version(day, image, Validator(etag, last_modified))


def version_row(place: tuple[int, int, int, int], version: Version, harvest: int) -> Row:
    """Returns the row of `versions` that says this of a tile. `place` is its layer's id, zoom, x and y."""
    image = version.image
    return {
        **dict(zip(TILE, place, strict=True)),
        "day": version.day,
        "sha1": image and image.sha1,
        "extension": image and image.extension,
        "size": image and image.size,
        "etag": version.validator.etag,
        "last_modified": version.validator.last_modified,
        "harvest": harvest,
    }
