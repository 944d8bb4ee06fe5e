"""Archives: all tiles of an excerpt on a day in one file, as PMTiles, MBTiles or a zip."""

from __future__ import annotations

import errno
import json
import sqlite3
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from math import atan, degrees, log2, pi, sinh
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pmtiles.convert import pmtiles_to_mbtiles
from pmtiles.reader import MmapSource, all_tiles
from pmtiles.tile import Compression, TileType, zxy_to_tileid
from pmtiles.writer import Writer

from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError, printable, program
from tileharvest.export.excerpt import areas_with_tiles, nothing_there, zooms_between
from tileharvest.export.target import ending_of, made_whole
from tileharvest.history.recorded_versions import reach
from tileharvest.pictures.composer import composing
from tileharvest.pictures.pixels import UNREADABLE, background_of, packed, picture_of, unpacked
from tileharvest.pictures.threads import each_in_order, open_threads
from tileharvest.renderers.xyz import is_on_earth
from tileharvest.tiles.grid import Tile, TileRange, least_depth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.store.port import TileStore

FORMS: Final = (".pmtiles", ".mbtiles", ".zip")
"""The endings of archives' names."""
_DEEPEST: Final = 30
"""The deepest zoom that most readers know."""
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
            extent = excerpt.extent(zoom)
            if extent is not None:
                corners = extent.at_zoom(zoom, excerpt.layer.factor).corners
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


@dataclass(slots=True)
class Archived:
    """The counts of an archive that was made."""

    tiles: int = 0
    composed: int = 0
    """The number of tiles that were composed of deeper ones, because the history has no images of them."""
    missing: int = 0
    """The number of tiles that are left out, or not whole, because images cannot be read."""
    bytes: int = 0
    zooms: list[int] = field(default_factory=list)
    """The archive's first and last zoom, in its own numbers."""
    kind: str = ""


def write_archive(
    excerpt: Excerpt,
    path: Path,
    zooms: str | None,
    store: TileStore,
    watch: Watch,
    most_bytes: int | None = None,
) -> Archived:
    """Writes the archive of an excerpt, of at most `most_bytes`. `zooms` are those that a person has chosen.

    Raises ConfigurationError if there can be no such archive, and for an empty area, and TileHarvestError.
    After an error there is no file, or the file from before.
    """
    ending, chosen = ending_of(path, FORMS, "an archive"), _zooms(excerpt, zooms)
    width, height = excerpt.tile_size
    if ending != ".zip" and width != height:
        raise ConfigurationError(
            f"tiles of {width} x {height} pixels are not square, which {ending} asks for;"
            " nothing was made: choose .zip"
        )
    counts = _kinds(excerpt, chosen)
    # Transparent images cannot become JPEG.
    kind = next(kind for kind, _ in counts.most_common() if kind != "jpg" or len(counts) == 1)
    numbering, done = Numbering.of(excerpt, chosen), Archived(kind=kind)
    watch.expects(counts.total())
    # All that is temporary lies on the disk of the archive, and not in a folder that may be in memory.
    with (
        made_whole(path, watch, most_bytes) as target,
        TemporaryFile(dir=path.parent) as bodies,
        TemporaryFile(dir=path.parent) as beside,
        open_threads(_AT_ONCE, "archive") as pool,
        composing(store) as composer,
    ):
        writer: Any = Writer(target.file if ending == ".pmtiles" else beside)  # type: ignore[no-untyped-call]
        writer.tile_f.close()
        writer.tile_f = bodies
        for zoom in chosen:
            past = excerpt.past(zoom)
            assert past is not None
            tiles = _tiles(excerpt, past, zoom, numbering, composer)
            body_of = partial(_body, excerpt, kind, past, composer, store)
            for tile, body, is_whole in each_in_order(pool, body_of, tiles, 4 * _AT_ONCE):
                target.passed(int(past.source == zoom), writer.offset)
                done.missing += not is_whole
                if body is None:
                    continue
                done.tiles += 1
                done.composed += past.source != zoom
                writer.write_tile(zxy_to_tileid(*numbering.place(tile)), body)
        if not done.tiles:
            raise TileHarvestError(
                f"{path} was not made, and what was there before is as it was: none of the images of"
                f" {excerpt.in_words()} can be read: {program()} check-store names them",
                exit_status=ExitStatus.FAILED_TILES,
            )
        done.zooms = [numbering.deepest + zoom for zoom in (chosen[0], chosen[-1])]
        about, header = _about(excerpt, done), _header(excerpt, chosen, kind, numbering)
        writer.finalize(header, about)
        if ending == ".mbtiles":
            _write_mbtiles(beside, target.file)
        elif ending == ".zip":
            edges = [header[f"{edge}_e7"] / 1e7 for edge in ("min_lon", "min_lat", "max_lon", "max_lat")]
            _write_zip(beside, target.file, {**about, "bounds": edges})
    done.bytes = path.stat().st_size
    return done


def _kinds(excerpt: Excerpt, zooms: Sequence[int]) -> Counter[str]:
    """Returns how many images of each kind these zooms have. Raises ConfigurationError if there is none."""
    counts: Counter[str] = Counter()
    for zoom in zooms:
        area = _area(excerpt, zoom)
        if area is None or excerpt.layer.source_zoom(zoom, excerpt.last) != zoom:
            continue
        found = reach(excerpt.history, excerpt.layer.id, area, excerpt.last, excerpt.last)
        counts.update(found.kinds if found is not None else {})
    if not counts:
        raise nothing_there(excerpt)
    return counts


def _write_mbtiles(made: Any, file: BinaryIO) -> None:
    """Writes an archive of PMTiles as MBTiles 1.3."""
    made.flush()
    try:
        # The archive has no name, so that not even a kill leaves it behind.
        pmtiles_to_mbtiles(f"/proc/self/fd/{made.fileno()}", file.name)  # type: ignore[no-untyped-call]
    except sqlite3.OperationalError as error:
        # SQLite reports a full disk with an error of its own.
        raise OSError(errno.ENOSPC, str(error)) from error


def _write_zip(made: Any, file: BinaryIO, about: Mapping[str, Any]) -> None:
    """Writes an archive of PMTiles as a zip of `zoom/column/row.extension`, and `tiles.json` about it
    (TileJSON 3.0)."""
    made.flush()
    with zipfile.ZipFile(file, "w") as opened:
        for place, body in all_tiles(MmapSource(made)):  # type: ignore[no-untyped-call]
            opened.writestr(f"{'/'.join(map(str, place))}.{about['format']}", body)
        tilejson = {"tilejson": "3.0.0", "scheme": "xyz", "tiles": [f"{{z}}/{{x}}/{{y}}.{about['format']}"]}
        opened.writestr("tiles.json", json.dumps({**about, **tilejson}))


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
    there = excerpt.extent(zoom)
    if there is None:
        return None
    area = there.at_zoom(zoom, factor)
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
    excerpt: Excerpt,
    kind: str,
    past: PastLayer,
    composer: Composer,
    store: TileStore,
    asked: tuple[Tile, Composition | str],
) -> tuple[Tile, bytes | None, bool]:
    """Returns the tile, its bytes, and whether all of its images can be read."""
    tile, part = asked
    ground = background_of(None, excerpt.described.background)
    try:
        if isinstance(part, str):
            body, is_whole, has_kind = store.named(part), True, part.endswith(f".{kind}")
        else:
            picture = composer.picture(past, part)
            body, is_whole, has_kind = picture.body, picture.whole, kind == "png"
        return tile, picture_of(body) if has_kind else packed(unpacked(body), kind, ground), is_whole
    except UNREADABLE:
        return tile, None, False


def _about(excerpt: Excerpt, done: Archived) -> dict[str, Any]:
    layer = printable(excerpt.layer.name)
    return {
        "name": f"{excerpt.map.name}, {layer}, {excerpt.last}",
        "description": f"{excerpt.map.name}, layer {layer}, on {excerpt.last}",
        "version": "1",
        "type": "baselayer",
        "format": done.kind,
        "minzoom": done.zooms[0],
        "maxzoom": done.zooms[1],
        "tile_size": excerpt.tile_size[0],
    }


def _header(excerpt: Excerpt, zooms: Sequence[int], kind: str, numbering: Numbering) -> dict[str, Any]:
    """Returns what the header of a PMTiles archive says of its tiles: their kind, and their bounds in
    degrees."""
    area = next(area for zoom in zooms[::-1] if (area := _area(excerpt, zoom)) is not None)
    (zoom, left, top), (_, right, bottom) = map(numbering.place, area.corners)
    (west, north), (east, south) = _degrees(zoom, left, top), _degrees(zoom, right + 1, bottom + 1)
    edges = {"min_lon": west, "min_lat": south, "max_lon": east, "max_lat": north}
    middle = {"center_lon": (west + east) / 2, "center_lat": (south + north) / 2}
    return {
        "tile_compression": Compression.NONE,
        "tile_type": _PMTILES[kind],
        "center_zoom": numbering.deepest + zooms[0],
        **{f"{name}_e7": round(degree * 1e7) for name, degree in {**edges, **middle}.items()},
    }


def _degrees(zoom: int, column: int, row: int) -> tuple[float, float]:
    """Returns longitude and latitude of a tile's upper left corner in the projection of web maps."""
    side = 1 << zoom
    return 360 * column / side - 180, degrees(atan(sinh(pi * (1 - 2 * row / side))))
