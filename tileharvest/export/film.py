"""A film: an excerpt of a map through a period, a frame for each of its states."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PIL import Image

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.film_file import (
    MOST_GIF_PIXELS,
    MOST_PIXELS,
    TICKS,
    film_format_of,
    write_film_file,
)
from tileharvest.export.picture_file import background_of
from tileharvest.export.target import made_whole
from tileharvest.history.area_changes import MOST_TILES
from tileharvest.history.changes import changed_blocks, deepest_changes, heat
from tileharvest.pictures.composer import composing
from tileharvest.pictures.frames import Frames, Lens, light, outline_between
from tileharvest.pictures.legend import Legend, scale_bar
from tileharvest.pictures.threads import drawing_threads
from tileharvest.renderers.xyz import is_on_earth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.pictures.bands import PixelBox
    from tileharvest.pictures.frames import Scene
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.grid import TileRange
    from tileharvest.tiles.layers import Size

SIZES: Final = {"wide": (1920, 1080), "square": (1080, 1080), "upright": (1080, 1920)}
"""The sizes of films by their names, in pixels."""

_FADE: Final = 2
"""Ticks that a cross-fade takes."""
_OUTLINED: Final = TICKS // 2
"""Ticks for which an outline is visible."""
_END: Final = 2 * TICKS
"""Ticks for which the last frame of a film stays."""
_SMALLEST: Final = 64
"""The least pixels of a film along an edge. Its lettering needs them."""
_LONGEST: Final = 4096
"""The most pixels along an edge that the players of telephones take."""
_LARGEST_SCALE: Final = 8
_SMALLEST_TILE: Final = 4
"""The least pixels of a tile in a film. With smaller tiles a frame would consist of many thousands."""
_LEAST_SCALE: Final = 1 / 16
"""The smallest scale at which images are drawn instead of composing a coarser zoom. 16 x 16 tiles take the
place of one then."""
_NEARER: Final = 1 / 8
"""The least share of the area, along an edge, that a camera that follows shows. It is two or three zooms
nearer than one that shows all."""
_DRIFT: Final = (TICKS, 3 * TICKS)
"""The least and the most ticks that a camera takes to the next place."""
_BLOCKS: Final = 8
"""The number of blocks of 8 x 8 tiles with the most changes from which the camera of a large map chooses."""
_STILL: Final = 0.3
"""The distance from the film's middle, as a share of its size, within which the camera need not move."""
_REMEMBERED: Final = 16 << 20
"""Bytes of composed pictures in memory. The frames keep what is drawn."""


@dataclass(frozen=True, slots=True)
class FilmStyle:
    """The looks of a film. None means the usual value."""

    size: Size = SIZES["wide"]
    zoom: int | None = None
    camera: str = "fixed"
    """`fixed` or `follow`."""
    every: str = "change"
    """The time between two frames: `change`, `day`, `week` or `month`."""
    pace: float = 0.5
    """Seconds for which a frame is shown."""
    title: str = ""
    font: str | None = None
    background: str | None = None
    quality: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of the map that a film shows."""

    day: date
    changed: int
    """The number of tiles that have changed since the moment before."""
    corner: tuple[int, int]
    """The upper left corner of the camera's view, in pixels of the film from the grid's origin."""


class Shot(NamedTuple):
    """A picture of a film."""

    moment: int
    """The number of the moment whose day is written on the picture."""
    corner: tuple[int, int]
    ticks: int
    """How long it is shown."""
    share: float = 1
    """The share of the moment's state. The rest is the state of the moment before, in a cross-fade."""
    glow: float = 0
    """The strength of the outline around what has changed since the moment before."""


@dataclass(frozen=True, slots=True)
class Film:
    """A film that is to be made."""

    excerpt: Excerpt
    style: FilmStyle
    lens: Lens
    moments: tuple[Moment, ...]

    def shots(self) -> list[Shot]:
        """Returns the pictures of the film in order."""
        pace, last = max(1, round(self.style.pace * TICKS)), len(self.moments) - 1
        found = [Shot(0, self.moments[0].corner, pace if last else _END)]
        for number, (before, moment) in enumerate(pairwise(self.moments), 1):
            found += self._drift(number - 1, before.corner, moment.corner)
            found += self._state(number, moment, pace if number < last else _END)
        return found

    def drift(self, before: tuple[int, int], after: tuple[int, int]) -> int:
        """Returns the ticks that the camera takes from one corner to another."""
        if before == after:
            return 0
        way = hypot(*(there - here for here, there in zip(before, after, strict=True)))
        return round(min(max(way / self.lens.size[0] * 2 * TICKS, _DRIFT[0]), _DRIFT[1]))

    def _drift(self, number: int, before: tuple[int, int], after: tuple[int, int]) -> Iterator[Shot]:
        ticks = self.drift(before, after)
        for tick in range(1, ticks + 1):
            share = tick / ticks
            # The camera moves slowly at both ends.
            eased = share * share * (3 - 2 * share)
            (left, top), (right, bottom) = before, after
            corner = round(left + (right - left) * eased), round(top + (bottom - top) * eased)
            yield Shot(number, corner, 1)

    @staticmethod
    def _state(number: int, moment: Moment, ticks: int) -> Iterator[Shot]:
        """Yields a cross-fade, then the new state with an outline, and then without one."""
        if not moment.changed:
            yield Shot(number, moment.corner, ticks)
            return
        fade = min(_FADE, ticks - 1)
        for tick in range(1, fade + 1):
            share = tick / (fade + 1)
            yield Shot(number, moment.corner, 1, share, glow=share)
        lit = min(ticks - fade, _OUTLINED - fade)
        yield Shot(number, moment.corner, lit, glow=1)
        # If there is time, the outline is visible for a tick more at half its strength.
        left = ticks - fade - lit
        if left > 0:
            yield Shot(number, moment.corner, 1, glow=0.5)
        if left > 1:
            yield Shot(number, moment.corner, left - 1)

    @property
    def seconds(self) -> float:
        return sum(shot.ticks for shot in self.shots()) / TICKS

    def in_words(self) -> str:
        """Returns a line about the film that will be made."""
        width, height = self.lens.size
        return (
            f"{self.excerpt.in_words()}, zoom {self.lens.zoom}: {counted(len(self.moments), 'frame')} of"
            f" {width:,} x {height:,} pixels, {self.seconds:,.0f} s"
        )

    def as_plain(self) -> dict[str, Any]:
        """Returns the film as a value of plain types, for `--json`."""
        return {
            "map": self.excerpt.map.name,
            "layer": self.excerpt.layer.name,
            "first": self.excerpt.first.isoformat(),
            "last": self.excerpt.last.isoformat(),
            "zoom": self.lens.zoom,
            "scale": self.lens.scale,
            "width": self.lens.size[0],
            "height": self.lens.size[1],
            "frames": len(self.moments),
            "seconds": self.seconds,
        }


def size_of(text: str) -> Size:
    """Returns a film's width and height. Raises ConfigurationError for any other text."""
    if text in SIZES:
        return SIZES[text]
    width, _, height = text.partition("x")
    if not (width.isascii() and width.isdigit() and height.isascii() and height.isdigit()):
        words = ", ".join(SIZES)
        raise ConfigurationError(f"--size {text} is not a size: write {words}, or 1280x720")
    size = int(width), int(height)
    if not all(_SMALLEST <= edge <= _LONGEST and edge % 2 == 0 for edge in size):
        raise ConfigurationError(
            f"--size {text} cannot be: an edge has {_SMALLEST} to {_LONGEST:,} pixels, in steps of 2"
        )
    return size


def film_of(excerpt: Excerpt, path: Path, style: FilmStyle) -> Film:
    """Returns the film of an excerpt, which ends with the last harvest at the latest. Asks the history once
    for each frame.

    Raises ConfigurationError if nothing was there, or if the film does not fit.
    """
    film_format_of(path)
    # Nothing is known of days after the last harvest.
    last = min(excerpt.last, excerpt.map.days[-1])
    excerpt = replace(excerpt, first=min(excerpt.first, last), last=last)
    width, height = style.size
    if width * height > MOST_PIXELS:
        raise ConfigurationError(
            f"--size {width}x{height} cannot be: {path.suffix} is packed in 300 MB of memory, in which a"
            f" frame has {MOST_PIXELS:,} pixels at most; nothing was made"
        )
    lens, box = _near(excerpt, style) if style.camera == "follow" else _far(excerpt, style)
    corner = _corner(lens, _middle(lens, box), box)
    area = lens.tiles(corner) if style.camera == "fixed" else box.tiles(lens.zoom, lens.tile_size)
    film = Film(excerpt, style, lens, _moments(excerpt, style.every, area, corner))
    # A title that cannot be written with the fonts of this computer raises an error before anything is drawn.
    Legend(style.size, style.title, None, style.font)
    film = _followed(film, box) if style.camera == "follow" else film
    most, pictures = MOST_GIF_PIXELS // (width * height), len(film.shots())
    if path.suffix.lower() == ".gif" and pictures > most:
        raise ConfigurationError(
            f"a .gif is packed as a whole, in 300 MB of memory, in which it has {most:,} pictures of this"
            f" size at most, and this film has {pictures:,}; nothing was made: choose .webp or .mp4, a"
            " smaller --size, --every month, or fewer days"
        )
    return film


def write_film(
    film: Film, path: Path, store: TileStore, watch: Watch, most_bytes: int | None = None
) -> tuple[int, int]:
    """Writes the film. Returns the file's bytes, and the number of tiles with an image that cannot be read.

    The file has at most `most_bytes`, or is not made. Several threads read the store. Raises
    TileHarvestError.
    """
    shots, ground = film.shots(), background_of(film.style.background, film.excerpt.described.background)
    watch.expects(len(shots))
    with (
        made_whole(path, watch, most_bytes) as target,
        drawing_threads() as pool,
        composing(store, _REMEMBERED) as composer,
    ):
        frames = Frames(composer, film.lens, ground, pool)
        pictures = _Pictures(film, frames)

        def draw(number: int) -> Image.Image:
            target.passed(int(number > 0))
            return pictures.of(shots[number])

        write_film_file(target, film.style.size, [shot.ticks for shot in shots], draw, film.style.quality)
        target.passed()
    return path.stat().st_size, len(frames.damaged)


class _Pictures:
    """Draws the pictures of a film, which must be asked for in order."""

    def __init__(self, film: Film, frames: Frames) -> None:
        self._film = film
        self._frames = frames
        self._legend = _legend(film)
        self._moment = -1
        self._before: Scene | None = None
        self._scene: Scene | None = None
        self._outline: Image.Image | None = None

    def of(self, shot: Shot) -> Image.Image:
        scene = self._scene
        if scene is None or (self._moment, scene.corner) != (shot.moment, shot.corner):
            scene = self._next_scene(shot)
        if self._before is not None and shot.share < 1:
            image = Image.blend(self._before.image, scene.image, shot.share)
        else:
            image = scene.image.copy()
        if self._outline is not None and shot.glow:
            light(image, self._outline, shot.glow)
        self._legend.write(image, self._film.moments[shot.moment].day.isoformat())
        return image

    def _next_scene(self, shot: Shot) -> Scene:
        before, lens = self._scene, self._film.lens
        past = self._film.excerpt.past(lens.zoom, self._film.moments[shot.moment].day)
        scene = self._frames.scene(past, shot.corner, before)
        self._outline = None
        if before is not None and before.corner == scene.corner:
            self._outline = outline_between(before.image, scene.image)
        self._before, self._scene, self._moment = before, scene, shot.moment
        return scene


def _legend(film: Film) -> Legend:
    lens, excerpt = film.lens, film.excerpt
    (left, top), (width, height) = film.moments[0].corner, lens.size
    pixel = 2 * excerpt.layer.factor**-lens.zoom / (lens.tile_size[0] * lens.scale)
    middle = (left + width / 2) * pixel, -(top + height / 2) * pixel
    on_earth = is_on_earth(excerpt.described, excerpt.map.renderer)
    bar = scale_bar(excerpt.described.projection, middle, pixel, width, on_earth=on_earth)
    return Legend(lens.size, film.style.title, bar, film.style.font)


class _Fit(NamedTuple):
    """The fit of an excerpt into a frame at a zoom."""

    zoom: int
    box: PixelBox
    scale: float
    """Pixels of the film for one pixel of the box if the frame shows the whole box."""
    is_kept: bool
    """Whether the history has images of this zoom, so that nothing is composed."""


def _fits(excerpt: Excerpt, size: Size) -> list[_Fit]:
    """Returns the fits at all zooms, deepest first. Raises ConfigurationError if nothing was there."""
    found = []
    for zoom in excerpt.zooms():
        box = excerpt.box(zoom)
        if box is not None:
            scale = min(size[0] / box.width, size[1] / box.height)
            found.append(_Fit(zoom, box, scale, excerpt.layer.source_zoom(zoom, excerpt.last) == zoom))
    if not found:
        raise nothing_there(excerpt)
    return found


def _far(excerpt: Excerpt, style: FilmStyle) -> tuple[Lens, PixelBox]:
    """Returns the lens that shows the whole excerpt as large as it fits, and the excerpt's box.

    If no zoom is given, the coarsest zoom is chosen that need not be enlarged. A zoom with images may be made
    far smaller instead, because that costs less than composing a coarser zoom. The deepest zoom may be
    enlarged by a whole number, so that blocks stay squares.
    """
    (width, height), fits = style.size, _fits(excerpt, style.size)
    if style.zoom is not None:
        fit = next((one for one in fits if one.zoom == style.zoom), fits[0])
        if fit.scale < 1:
            raise ConfigurationError(
                f"zoom {fit.zoom} has {fit.box.width:,} x {fit.box.height:,} pixels of this area, and a frame"
                f" {width:,} x {height:,}: leave --zoom out, or write --camera follow; nothing was made"
            )
        return Lens(fit.zoom, excerpt.tile_size, 1, style.size), fit.box
    fitting = [one for one in fits if one.scale <= 1] or fits[:1]
    kept = [one for one in fitting if one.is_kept and one.scale >= _LEAST_SCALE]
    fit = (kept or fitting)[-1]
    scale = fit.scale if fit.scale < 1 else min(_LARGEST_SCALE, int(fit.scale))
    if min(excerpt.tile_size) * scale < _SMALLEST_TILE:
        raise ConfigurationError(
            f"{excerpt.in_words()}: too much to be seen in {width:,} x {height:,} pixels; choose a smaller"
            " --area, or write --camera follow; nothing was made"
        )
    return Lens(fit.zoom, excerpt.tile_size, scale, style.size), fit.box


def _near(excerpt: Excerpt, style: FilmStyle) -> tuple[Lens, PixelBox]:
    """Returns the lens of a camera that follows, which is nearer than one that shows the whole excerpt, and
    the excerpt's box."""
    fits = _fits(excerpt, style.size)
    if style.zoom is None and fits[0].scale >= 1:
        return _far(excerpt, style)
    near = [one for one in fits if one.scale >= _NEARER or one is fits[-1]]
    chosen = [one for one in fits if one.zoom == style.zoom] or near
    return Lens(chosen[0].zoom, excerpt.tile_size, 1, style.size), chosen[0].box


def _middle(lens: Lens, box: PixelBox) -> tuple[float, float]:
    return (box.left + box.right) / 2 * lens.scale, (box.top + box.bottom) / 2 * lens.scale


def _corner(lens: Lens, point: tuple[float, float], box: PixelBox) -> tuple[int, int]:
    """Returns the corner of the view that has a point in its middle, or as near to it as the area's edges
    allow."""

    def along(at: float, length: int, first: int, last: int) -> int:
        first, last = round(first * lens.scale), round(last * lens.scale)
        if last - first <= length:
            return (first + last - length) // 2
        return min(max(round(at - length / 2), first), last - length)

    return (
        along(point[0], lens.size[0], box.left, box.right),
        along(point[1], lens.size[1], box.top, box.bottom),
    )


def _moments(excerpt: Excerpt, every: str, area: TileRange, corner: tuple[int, int]) -> tuple[Moment, ...]:
    """Returns the moments of the film, each with the changes of the area since the moment before."""
    changes = deepest_changes(excerpt.history, excerpt.layer, area)
    first, last = excerpt.first, excerpt.last
    begin = first if any(day <= first for day in changes) else min(changes, default=last)
    days = [begin]
    if every == "change":
        days += [day for day in changes if begin < day <= last]
    else:
        day = _following(begin, every)
        while day <= last:
            days.append(day)
            day = _following(day, every)
        if days[-1] != last and every != "day":
            days.append(last)
    found = [Moment(begin, 0, corner)]
    for before, day in pairwise(days):
        changed = sum(tiles for changed, tiles in changes.items() if before < changed <= day)
        found.append(Moment(day, changed, corner))
    return tuple(found)


def _following(day: date, every: str) -> date:
    if every == "month":
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if every == "week" else 1)


def _followed(film: Film, box: PixelBox) -> Film:
    """Returns the film with a camera that goes to the place where most has changed, unless that place is well
    in view."""
    excerpt, lens, moments = film.excerpt, film.lens, [film.moments[0]]
    corner: tuple[int, int] | None = None
    for before, moment in pairwise(film.moments):
        place = _busiest(excerpt, lens, box, before.day, moment.day) if moment.changed else None
        if place is not None and (corner is None or not _is_well_in_view(lens, corner, place)):
            corner = _corner(lens, place, box)
        moments.append(replace(moment, corner=corner or moment.corner))
    # The film begins at the place of the first change.
    moments[0] = replace(moments[0], corner=moments[1].corner if len(moments) > 1 else moments[0].corner)
    return replace(film, moments=tuple(moments))


def _is_well_in_view(lens: Lens, corner: tuple[int, int], place: tuple[float, float]) -> bool:
    return all(
        abs(at - (start + length / 2)) <= _STILL * length
        for at, start, length in zip(place, corner, lens.size, strict=True)
    )


def _busiest(
    excerpt: Excerpt, lens: Lens, box: PixelBox, after: date, until: date
) -> tuple[float, float] | None:
    """Returns the place, in pixels of the film, around which most tiles changed after the day `after` until
    the day `until`."""
    source, factor = excerpt.layer.source_zoom(lens.zoom, until), excerpt.layer.factor
    if source is None:
        return None
    area = box.tiles(lens.zoom, lens.tile_size).at_zoom(source, factor)
    if len(area.columns) * len(area.rows) <= MOST_TILES:
        changed = heat(excerpt.history, excerpt.layer.id, area, after, until)
    else:
        blocks = changed_blocks(excerpt.history, excerpt.layer.id, source, after, until, _BLOCKS)
        changed = {block.tile: block.tiles for block in blocks if block.tile in area}
    share = factor ** (lens.zoom - source) * lens.scale
    (across, down), (width, height) = lens.tile_size, lens.size
    near: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for tile in changed:
        x, y = (tile.column + 0.5) * across * share, (tile.row + 0.5) * down * share
        near[int(x // (width / 2)), int(y // (height / 2))].append((x, y))
    if not near:
        return None
    # Sorting makes the choice between places with equally many changes always the same.
    most = max(sorted(near), key=lambda place: len(near[place]))
    points = near[most]
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
