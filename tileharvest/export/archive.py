"""Archives: all tiles of an excerpt on a day in one file, as PMTiles, MBTiles or a zip."""

from __future__ import annotations

import errno
import io
import json
import sqlite3
import zipfile
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import atan, degrees, log2, pi, sinh
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from PIL import Image as Pillow
from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import Writer

from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError, counted, printable
from tileharvest.export.excerpt import areas_with_tiles, nothing_there, zooms_between
from tileharvest.export.picture_file import background_of, on_ground
from tileharvest.export.target import made_whole
from tileharvest.history.recorded_versions import kinds
from tileharvest.pictures.composer import composing
from tileharvest.pictures.pixels import UNREADABLE, picture_of
from tileharvest.pictures.threads import each_in_order, open_threads
from tileharvest.program import program
from tileharvest.renderers.xyz import is_on_earth
from tileharvest.tiles.grid import Tile, TileRange, least_depth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path
    from typing import BinaryIO

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.store.port import TileStore

FORMS: Final = (".pmtiles", ".mbtiles", ".zip")
"""The endings of archives' names."""
_MOST_ZIPPED: Final = 200_000
"""The most tiles of a zip, whose list of contents is held in memory until the end."""
_DEEPEST: Final = 30
"""The deepest zoom that most readers know."""
_QUALITY: Final = 90
"""The quality of JPEG."""
_AT_ONCE: Final = 4
"""Threads that read and pack images."""
_PMTILES: Final = {"png": TileType.PNG, "jpg": TileType.JPEG, "webp": TileType.WEBP}


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers of our tiles in an archive, which are counted from the upper left of a square of 2^zoom x
    2^zoom tiles."""

    deepest: int
    """The archive's zoom for our zoom 0."""
    left: int = 0
    """The column of zoom 0 at which the square begins."""
    top: int = 0
    """The row of zoom 0 at which the square begins."""

    @classmethod
    def of(cls, excerpt: Excerpt, zooms: Sequence[int]) -> Numbering:
        """Returns the usual numbers for a map of the earth, and a square around the grid's middle for any
        other map.

        Raises ConfigurationError for a map that is too large.
        """
        described = excerpt.described
        if is_on_earth(described, excerpt.map.renderer):
            assert described.projection is not None
            (west, south), (east, _) = (described.projection.place_at(x, 0) for x in (0, 2))
            width = abs(east - west)
            deepest = round(log2(360 / width))
            return cls(deepest, -round((west + 180) / width), -round((south + 180) / width))
        deepest = 1 - zooms[0]
        for zoom in zooms:
            reach = excerpt.reach(zoom)
            if reach is not None:
                corners = reach.area.at_zoom(zoom, excerpt.layer.factor).corners
                deepest = max(deepest, *map(least_depth, corners))
        if deepest > _DEEPEST:
            raise ConfigurationError(f"the map is too wide for an archive: it would have {deepest} zooms")
        half = 1 << deepest - 1
        return cls(deepest, -half, -half)

    def place(self, tile: Tile) -> Place:
        """Returns a tile's place in the archive."""
        column, row = tile.column - (self.left >> -tile.zoom), tile.row - (self.top >> -tile.zoom)
        return self.deepest + tile.zoom, column, row


Place: TypeAlias = tuple[int, int, int]
"""Zoom, column and row in an archive. Rows are counted downwards."""


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """The plan of an archive: its zooms, its kind of images, and its size."""

    excerpt: Excerpt
    zooms: Sequence[int]
    """The zooms in our numbers, coarsest first."""
    kind: str | None
    """The extension of all tiles, or None if each keeps its own."""
    tiles: int
    """The number of tiles with images of their own."""

    @classmethod
    def of(cls, excerpt: Excerpt, path: Path, zooms: str | None) -> ArchivePlan:
        """Returns the plan. Raises ConfigurationError if there can be no such archive, and for an empty
        area."""
        if path.suffix.lower() not in FORMS:
            raise ConfigurationError(
                f"{path.name} is not a name for an archive: end it with {', '.join(FORMS)}; nothing was made"
            )
        chosen = _zooms(excerpt, zooms)
        counts: Counter[str] = Counter()
        for zoom in chosen:
            area = _area(excerpt, zoom)
            if area is None or excerpt.layer.source_zoom(zoom, excerpt.last) != zoom:
                continue
            for kind, (tiles, _) in kinds(excerpt.history, excerpt.layer.id, area, excerpt.last).items():
                counts[kind] += tiles
        if not counts:
            raise nothing_there(excerpt)
        if path.suffix.lower() == ".zip":
            if counts.total() > _MOST_ZIPPED:
                raise ConfigurationError(
                    f"{counts.total():,} tiles are too many for a zip, which takes {_MOST_ZIPPED:,};"
                    " nothing was made: choose .pmtiles, fewer --zooms or a smaller --area"
                )
            return cls(excerpt, chosen, None, counts.total())
        width, height = excerpt.tile_size
        if width != height:
            raise ConfigurationError(
                f"tiles of {width} x {height} pixels are no squares, which {path.suffix} asks for;"
                " nothing was made: choose .zip"
            )
        # Transparent images cannot become JPEG.
        most = [kind for kind, _ in counts.most_common() if kind != "jpg" or len(counts) == 1]
        return cls(excerpt, chosen, most[0], counts.total())

    def in_words(self) -> str:
        """Returns a line about the archive that will be made."""
        return (
            f"{self.excerpt.in_words()}, zooms {self.zooms[0]} to {self.zooms[-1]}:"
            f" {counted(self.tiles, 'tile')}"
        )


@dataclass(slots=True)
class Archived:
    """The counts of an archive that was made."""

    tiles: int = 0
    composed: int = 0
    """The number of tiles that were composed of deeper ones, because the history has no images of them."""
    packed_anew: int = 0
    """The number of tiles whose images were of another kind than the archive's."""
    missing: int = 0
    """The number of tiles that are left out, or not whole, because images cannot be read."""
    bytes: int = 0
    zooms: list[int] = field(default_factory=list)
    """The archive's first and last zoom, in its own numbers."""
    kind: str | None = None

    def as_plain(self) -> dict[str, Any]:
        """Returns the counts as a value of plain types, for `--json`."""
        return asdict(self)


class ArchiveFile(Protocol):
    """A file into which tiles are put."""

    @property
    def beside(self) -> int:
        """The bytes of tiles that lie in another file until the end."""
        ...

    def put(self, place: Place, name: str, body: bytes) -> None:
        """Puts a tile into the file. Equal names mean equal bytes. Zooms come coarsest first, and the tiles
        of a zoom come in the order of PMTiles."""

    def end(self, about: Mapping[str, Any]) -> None:
        """Writes the rest of the file. `about` has `name`, `bounds` in degrees, `minzoom`, `maxzoom` and
        more."""


def write_archive(
    plan: ArchivePlan, path: Path, store: TileStore, watch: Watch, most_bytes: int | None = None
) -> Archived:
    """Writes the archive, of at most `most_bytes`. Raises TileHarvestError. After an error there is no file,
    or the file from before."""
    excerpt = plan.excerpt
    numbering = Numbering.of(excerpt, plan.zooms)
    done = Archived(kind=plan.kind)
    watch.expects(plan.tiles)
    with (
        made_whole(path, watch, most_bytes) as target,
        _opened(path, target.file, plan) as archive,
        open_threads(_AT_ONCE, "archive") as pool,
        composing(store) as composer,
    ):
        for zoom in plan.zooms:
            past = excerpt.past(zoom)
            assert past is not None
            tiles = _tiles(excerpt, past, zoom, numbering, composer)
            drawn = each_in_order(pool, partial(_body, plan, past, composer, store), tiles, 4 * _AT_ONCE)
            for tile, name, body, is_whole in drawn:
                target.passed(int(past.source == zoom), archive.beside)
                done.missing += not is_whole
                if body is None:
                    continue
                done.tiles += 1
                done.composed += past.source != zoom
                done.packed_anew += name.startswith("anew ") and past.source == zoom
                archive.put(numbering.place(tile), name, body)
        if not done.tiles:
            raise TileHarvestError(
                f"{path} was not made, and what was there before is as it was: none of the images of"
                f" {excerpt.in_words()} can be read: {program()} check-store names them",
                exit_status=ExitStatus.FAILED_TILES,
            )
        done.zooms = [numbering.deepest + zoom for zoom in (plan.zooms[0], plan.zooms[-1])]
        archive.end(_about(plan, done, numbering))
    done.bytes = path.stat().st_size
    return done


def _zooms(excerpt: Excerpt, text: str | None) -> list[int]:
    """Returns the zooms of an archive, coarsest first. They begin where the whole map consists of few
    tiles."""
    if excerpt.layer.factor != 2:
        # Each zoom of an archive must have twice as many tiles in a row as the zoom before, so one zoom is
        # all.
        return zooms_between(excerpt.zooms()[:1] if text is None else excerpt.zooms()[::-1], text)[-1:]
    zooms: list[int] = []
    coarsest = excerpt.layer.kept_zooms(excerpt.last)[0]
    for zoom in excerpt.zooms():
        zooms.insert(0, zoom)
        area = _area(excerpt, zoom)
        if zoom <= coarsest and (area is None or max(len(area.columns), len(area.rows)) <= 2):
            break
    return zooms_between(zooms, text)


def _area(excerpt: Excerpt, zoom: int) -> TileRange | None:
    """Returns the tiles of a zoom that belong to the excerpt, or None if none was there."""
    factor = excerpt.layer.factor
    there = excerpt.reach(zoom)
    if there is None:
        return None
    area = there.area.at_zoom(zoom, factor)
    return area if excerpt.ground is None else area.intersection(excerpt.ground.tiles(zoom, factor))


def _tiles(
    excerpt: Excerpt, past: PastLayer, zoom: int, numbering: Numbering, composer: Composer
) -> Iterator[tuple[Tile, Composition | str]]:
    """Yields the tiles of a zoom in the order of PMTiles, which follows a Hilbert curve.

    On a map of the earth our squares may not line up with those of the curve. Then the order differs, and the
    file says so.
    """

    def number(tile: Tile) -> int:
        return zxy_to_tileid(*numbering.place(tile))

    wanted = _area(excerpt, zoom)
    areas = areas_with_tiles(excerpt.history, excerpt.layer, past.source, zoom)
    parts = [part for area in areas if wanted and (part := area.intersection(wanted))]
    for part in sorted(parts, key=lambda part: number(part.corners[0])):
        shown = composer.parts(past, part)
        for tile in sorted(shown, key=number):
            yield tile, shown[tile]


def _body(
    plan: ArchivePlan,
    past: PastLayer,
    composer: Composer,
    store: TileStore,
    asked: tuple[Tile, Composition | str],
) -> tuple[Tile, str, bytes | None, bool]:
    """Returns the tile, a name for its bytes, the bytes, and whether all of its images can be read. A name
    that begins with `anew` is that of an image that was packed again."""
    tile, part = asked
    if isinstance(part, str):
        kind = part.rpartition(".")[2]
        try:
            body = picture_of(store.named(part))
            if plan.kind in {kind, None}:
                return tile, part, body, True
            return tile, f"anew {part}", _packed(plan, body), True
        except UNREADABLE:
            return tile, part, None, False
    picture = composer.picture(past, part)
    name = f"anew {part.key}.png"
    if plan.kind in {"png", None}:
        return tile, name, picture.body, picture.whole
    return tile, name, _packed(plan, picture.body), picture.whole


def _packed(plan: ArchivePlan, body: bytes) -> bytes:
    """Returns an image in the archive's kind, without loss unless that kind is JPEG."""
    assert plan.kind is not None
    with Pillow.open(io.BytesIO(body)) as image:
        whole = image.convert("RGBA")
    packed = io.BytesIO()
    if plan.kind == "jpg":
        ground = background_of(None, plan.excerpt.described.background)
        on_ground(whole, ground).save(packed, "JPEG", quality=_QUALITY)
    elif plan.kind == "webp":
        whole.save(packed, "WEBP", lossless=True, method=0)
    else:
        whole.save(packed, "PNG")
    return packed.getvalue()


def _about(plan: ArchivePlan, done: Archived, numbering: Numbering) -> dict[str, Any]:
    excerpt, layer = plan.excerpt, printable(plan.excerpt.layer.name)
    area = next(area for zoom in plan.zooms[::-1] if (area := _area(excerpt, zoom)) is not None)
    (zoom, left, top), (_, right, bottom) = map(numbering.place, area.corners)
    west, north = _degrees(zoom, left, top)
    east, south = _degrees(zoom, right + 1, bottom + 1)
    return {
        "name": f"{excerpt.map.name}, {layer}, {excerpt.last}",
        "description": f"{excerpt.map.name}, layer {layer}, on {excerpt.last}",
        "version": "1",
        "type": "baselayer",
        "format": plan.kind,
        "minzoom": done.zooms[0],
        "maxzoom": done.zooms[1],
        "bounds": [west, south, east, north],
        "tile_size": excerpt.tile_size[0],
    }


def _degrees(zoom: int, column: int, row: int) -> tuple[float, float]:
    """Returns longitude and latitude of a tile's upper left corner in the projection of web maps."""
    side = 1 << zoom
    return 360 * column / side - 180, degrees(atan(sinh(pi * (1 - 2 * row / side))))


@contextmanager
def _opened(path: Path, file: BinaryIO, plan: ArchivePlan) -> Iterator[ArchiveFile]:
    """Opens an archive of the format that the path's ending says."""
    suffix = path.suffix.lower()
    if suffix == ".pmtiles":
        # On the disk of the archive, and not in a folder that may lie in memory.
        with TemporaryFile(dir=path.parent) as tiles:
            yield PmtilesFile(file, tiles, plan.kind or "png")
    elif suffix == ".mbtiles":
        try:
            with closing(sqlite3.connect(file.name, isolation_level=None)) as opened:
                yield MbtilesFile(opened)
        except sqlite3.OperationalError as error:
            # SQLite reports a full disk with an error of its own.
            raise OSError(errno.ENOSPC, str(error)) from error
    else:
        with zipfile.ZipFile(file, "w") as opened_zip:
            yield ZipOfTiles(opened_zip, plan.excerpt.last)


class PmtilesFile:
    """A file of PMTiles v3. The tiles lie in another file until the end: the directories come first."""

    def __init__(self, file: BinaryIO, tiles: Any, kind: str) -> None:
        """`tiles` is an empty file on the disk that was chosen for the archive."""
        self._writer: Any = Writer(file)  # type: ignore[no-untyped-call]
        self._writer.tile_f.close()
        self._writer.tile_f = tiles
        self._kind = kind

    @property
    def beside(self) -> int:
        return int(self._writer.offset)

    def put(self, place: Place, name: str, body: bytes) -> None:
        self._writer.write_tile(zxy_to_tileid(*place), body)

    def end(self, about: Mapping[str, Any]) -> None:
        west, south, east, north = (round(edge * 1e7) for edge in about["bounds"])
        self._writer.finalize(
            {
                "tile_compression": Compression.NONE,
                "tile_type": _PMTILES[self._kind],
                "min_lon_e7": west,
                "min_lat_e7": south,
                "max_lon_e7": east,
                "max_lat_e7": north,
                "center_zoom": about["minzoom"],
                "center_lon_e7": (west + east) // 2,
                "center_lat_e7": (south + north) // 2,
            },
            {key: value for key, value in about.items() if key not in ("minzoom", "maxzoom", "bounds")},
        )


class MbtilesFile:
    """A file of MBTiles 1.3, which is an SQLite database. Its rows of tiles are counted upwards."""

    def __init__(self, opened: sqlite3.Connection) -> None:
        self._opened = opened
        self.beside = 0
        # A file that does not become whole is thrown away, so SQLite need not protect it.
        opened.execute("PRAGMA journal_mode = OFF")
        opened.execute("PRAGMA synchronous = OFF")
        opened.execute("PRAGMA application_id = 0x4d504258")
        opened.execute("BEGIN")
        for table in (
            "metadata (name TEXT, value TEXT)",
            "map (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_id TEXT)",
            "images (tile_id TEXT PRIMARY KEY, tile_data BLOB)",
        ):
            opened.execute(f"CREATE TABLE {table}")
        opened.execute("CREATE UNIQUE INDEX map_index ON map (zoom_level, tile_column, tile_row)")
        opened.execute(
            "CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data FROM map"
            " JOIN images ON images.tile_id = map.tile_id"
        )

    def put(self, place: Place, name: str, body: bytes) -> None:
        zoom, column, row = place
        self._opened.execute("INSERT OR IGNORE INTO images VALUES (?, ?)", (name, body))
        self._opened.execute(
            "INSERT INTO map VALUES (?, ?, ?, ?)", (zoom, column, (1 << zoom) - 1 - row, name)
        )

    def end(self, about: Mapping[str, Any]) -> None:
        bounds = about["bounds"]
        middle = [(bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2, about["minzoom"]]
        metadata = {**about, "bounds": _in_row(bounds), "center": _in_row(middle)}
        rows = [(name, str(value)) for name, value in metadata.items() if value is not None]
        self._opened.executemany("INSERT INTO metadata VALUES (?, ?)", rows)
        self._opened.execute("COMMIT")


def _in_row(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:.7f}".rstrip("0").rstrip(".") for number in numbers)


class ZipOfTiles:
    """A zip of `zoom/column/row.extension`, and `tiles.json` about it (TileJSON 3.0)."""

    def __init__(self, opened: zipfile.ZipFile, day: date) -> None:
        self._opened = opened
        self.beside = 0
        self._time = (max(1980, day.year), day.month, day.day, 0, 0, 0)
        self._kinds: Counter[str] = Counter()

    def put(self, place: Place, name: str, body: bytes) -> None:
        kind = "png" if name.startswith("anew ") else name.rpartition(".")[2]
        # An image of BlueMap, whose lower half is cut off, becomes a PNG.
        self._kinds[kind] += 1
        self._write(f"{'/'.join(map(str, place))}.{kind}", body)

    def end(self, about: Mapping[str, Any]) -> None:
        kinds = [kind for kind, _ in self._kinds.most_common()]
        tilejson = {
            "tilejson": "3.0.0",
            "scheme": "xyz",
            "tiles": [f"{{z}}/{{x}}/{{y}}.{kind}" for kind in kinds[:1]],
        }
        self._write(
            "tiles.json", json.dumps({**about, **tilejson, "format": kinds[0], "kinds": kinds}).encode()
        )

    def _write(self, name: str, body: bytes) -> None:
        self._opened.writestr(zipfile.ZipInfo(name, self._time), body)
