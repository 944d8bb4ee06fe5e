"""A film: an excerpt of a map through a period, a frame for each of its states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.film_file import (
    MOST_GIF_PIXELS,
    MOST_PIXELS,
    TICKS,
    film_ending_of,
    write_film_file,
)
from tileharvest.export.picture_file import background_of
from tileharvest.export.target import made_whole
from tileharvest.history.changes import deepest_changes
from tileharvest.pictures.composer import composing
from tileharvest.pictures.frames import Frames, Lens, light, outline_between
from tileharvest.pictures.legend import Legend
from tileharvest.pictures.threads import drawing_threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PIL import Image

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import Watch
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Size

SIZES: Final = {"wide": (1920, 1080), "square": (1080, 1080), "upright": (1080, 1920)}
"""The sizes of films by their names, in pixels."""

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
_REMEMBERED: Final = 16 << 20
"""Bytes of composed pictures in memory. The frames keep what is drawn."""


@dataclass(frozen=True, slots=True)
class FilmStyle:
    """The looks of a film. None means the usual value."""

    size: Size = SIZES["wide"]
    zoom: int | None = None
    every: str = "change"
    """The time between two frames: `change`, `day`, `week` or `month`."""
    pace: float = 0.5
    """Seconds for which a frame is shown."""
    title: str = ""
    background: str | None = None
    quality: int | None = None


class Moment(NamedTuple):
    """A state of the map that a film shows."""

    day: date
    changed: int
    """The number of tiles that have changed since the moment before."""


class Shot(NamedTuple):
    """A picture of a film."""

    moment: int
    """The number of the moment that it shows."""
    ticks: int
    """How long it is shown."""
    is_outlined: bool
    """Whether it has an outline around what has changed since the moment before."""


@dataclass(frozen=True, slots=True)
class Film:
    """A film that is to be made."""

    excerpt: Excerpt
    style: FilmStyle
    lens: Lens
    moments: tuple[Moment, ...]

    def shots(self) -> list[Shot]:
        """Returns the pictures of the film in order. A new state has outlines at first, and then stands
        alone."""
        pace, last = max(1, round(self.style.pace * TICKS)), len(self.moments) - 1
        found = []
        for number, moment in enumerate(self.moments):
            ticks = pace if number < last else _END
            lit = min(ticks, _OUTLINED) if moment.changed else 0
            found += [Shot(number, lit, True), Shot(number, ticks - lit, False)]
        return [shot for shot in found if shot.ticks]

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
    film_ending_of(path)
    # Nothing is known of days after the last harvest.
    last = min(excerpt.last, excerpt.map.days[-1])
    excerpt = replace(excerpt, first=min(excerpt.first, last), last=last)
    width, height = style.size
    if width * height > MOST_PIXELS:
        raise ConfigurationError(
            f"--size {width}x{height} cannot be: {path.suffix} is packed in 300 MB of memory, in which a"
            f" frame has {MOST_PIXELS:,} pixels at most; nothing was made"
        )
    lens = _lens(excerpt, style)
    film = Film(excerpt, style, lens, _moments(excerpt, style.every, lens))
    # A title that cannot be written with the fonts of this computer raises an error before anything is drawn.
    Legend(style.size, style.title)
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
    """Writes the film. Returns the file's bytes, and the number of images that cannot be read.

    The file has at most `most_bytes`, or is not made. Several threads read the store. Raises
    TileHarvestError.
    """
    ticks = [shot.ticks for shot in film.shots()]
    ground = background_of(film.style.background, film.excerpt.described.background)
    watch.expects(len(ticks))
    with (
        made_whole(path, watch, most_bytes) as target,
        drawing_threads() as pool,
        composing(store, _REMEMBERED) as composer,
    ):
        drawn = _pictures(film, Frames(composer, film.lens, ground, pool))

        def pictures() -> Iterator[Image.Image]:
            for number in range(len(ticks)):
                target.passed(int(number > 0))
                yield next(drawn)

        write_film_file(target, film.style.size, ticks, pictures(), film.style.quality)
        target.passed()
    return path.stat().st_size, len(composer.unreadable)


def _pictures(film: Film, frames: Frames) -> Iterator[Image.Image]:
    """Yields the pictures of a film."""
    legend, number, outline = Legend(film.lens.size, film.style.title), -1, None
    for shot in film.shots():
        if shot.moment != number:
            number, before = shot.moment, frames.image
            frames.next(film.excerpt.past(film.lens.zoom, film.moments[number].day))
            outline = outline_between(before, frames.image) if film.moments[number].changed else None
        image = frames.image.copy()
        if outline is not None and shot.is_outlined:
            light(image, outline)
        legend.write(image, film.moments[number].day.isoformat())
        yield image


def _lens(excerpt: Excerpt, style: FilmStyle) -> Lens:
    """Returns the lens that shows the whole excerpt as large as it fits, with its middle in the lens's own.

    If no zoom is given, it is the coarsest one that need not be enlarged. The deepest zoom may be enlarged by
    a whole number, so that blocks stay squares.
    """
    (width, height), boxes = style.size, {zoom: excerpt.box(zoom) for zoom in excerpt.zooms()}
    # For each zoom the pixels of the film for one pixel of the box if a frame shows the whole box.
    scales = {
        zoom: min(width / box.width, height / box.height) for zoom, box in boxes.items() if box is not None
    }
    if not scales:
        raise nothing_there(excerpt)
    deepest = max(scales)
    if style.zoom is None:
        zoom = min((one for one, scale in scales.items() if scale <= 1), default=deepest)
        scale = scales[zoom] if scales[zoom] < 1 else min(_LARGEST_SCALE, int(scales[zoom]))
    else:
        zoom, scale = (style.zoom if style.zoom in scales else deepest), 1
    box = boxes[zoom]
    assert box is not None
    if scales[zoom] < scale:
        raise ConfigurationError(
            f"zoom {zoom} has {box.width:,} x {box.height:,} pixels of this area, and a frame {width:,} x"
            f" {height:,}: leave --zoom out, or choose a smaller --area; nothing was made"
        )
    if min(excerpt.tile_size) * scale < _SMALLEST_TILE:
        raise ConfigurationError(
            f"{excerpt.in_words()}: too much to be seen in {width:,} x {height:,} pixels; choose a smaller"
            " --area; nothing was made"
        )
    left = (round(box.left * scale) + round(box.right * scale) - width) // 2
    top = (round(box.top * scale) + round(box.bottom * scale) - height) // 2
    return Lens(zoom, excerpt.tile_size, scale, style.size, (left, top))


def _moments(excerpt: Excerpt, every: str, lens: Lens) -> tuple[Moment, ...]:
    """Returns the moments of the film, each with the changes in view since the moment before."""
    changes = deepest_changes(excerpt.history, excerpt.layer, lens.tiles())
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
    found = [Moment(begin, 0)]
    for before, day in pairwise(days):
        found.append(Moment(day, sum(tiles for of, tiles in changes.items() if before < of <= day)))
    return tuple(found)


def _following(day: date, every: str) -> date:
    if every == "month":
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if every == "week" else 1)
