"""A film: an excerpt of a map through a period, a frame for each of its states; PyAV or Pillow writes it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import accumulate
from math import floor
from typing import TYPE_CHECKING, Any, Final

from PIL import Image, ImageDraw, ImageFont

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.target import ending_of, made_whole
from tileharvest.history.changes import deepest_changes
from tileharvest.pictures.composer import composing
from tileharvest.pictures.pixels import background_of, on_ground, shrunk
from tileharvest.pictures.threads import drawing_threads, each_in_order
from tileharvest.tiles.grid import Tile, TileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from concurrent.futures import Executor
    from pathlib import Path

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import GrowingFile, Watch
    from tileharvest.pictures.composer import Composer, Composition, PastLayer
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Size

SIZES: Final = {"wide": (1920, 1080), "square": (1080, 1080), "upright": (1080, 1920)}
"""The sizes of films by their names, in pixels."""

TICKS: Final = 20
"""Ticks of a second. A GIF counts hundredths of a second, of which a tick has five."""
_END: Final = 2 * TICKS
"""Ticks for which the last frame of a film stays."""
_MOST_PIXELS: Final = 1920 * 1200
"""The most pixels of a frame that can be packed in 300 MB of memory."""
_THREADS: Final = 2
_GIF_COLOURS: Final = 255
"""The most colours of a GIF's frame. One more is for pixels that stay, which Pillow makes transparent."""

FILM_FORMATS: Final = {".mp4": 75, ".webm": 75, ".webp": 80, ".gif": 100}
"""The formats by the ending of a file's name, each with the quality if none is asked for, from 1 to 100."""
_VIDEOS: Final = (".mp4", ".webm")
"""The formats that need PyAV."""

_SMALLEST: Final = 64
"""The least pixels of a film along an edge. Its lettering needs them."""
_LONGEST: Final = 4096
"""The most pixels along an edge that the players of telephones take."""
_LARGEST_SCALE: Final = 8
_SMALLEST_TILE: Final = 4
"""The least pixels of a tile in a film. With smaller tiles a frame would consist of many thousands."""
_REMEMBERED: Final = 16 << 20
"""Bytes of composed pictures in memory. The frames keep what is drawn."""
_AT_ONCE: Final = 64
"""Tiles that are unpacked before they are drawn. A view from far away may have thousands."""

_PLATE: Final = (0, 0, 0, 150)
_INK: Final = (255, 255, 255, 255)
_LINES: Final = 32
"""The number of lines of text that fit into the picture's shorter edge."""
_SMALLEST_LINE: Final = 10
"""The least height in pixels of a line that can be read."""
_FONTS: Final = (
    "NotoSansCJK-Regular.ttc",
    "NotoSansSC-Regular.otf",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "msyh.ttc",
    "PingFang.ttc",
    "DejaVuSans.ttf",
)
"""Fonts of operating systems with signs that Pillow's own font lacks, in the order in which they are
tried."""


@dataclass(frozen=True)
class Lens:
    """The part of a zoom that a film shows, and the scale at which it shows it."""

    zoom: int
    tile_size: Size
    scale: float
    """Pixels of the film for one pixel of a tile."""
    size: Size
    """The film's width and height in pixels."""
    corner: tuple[int, int]
    """Left and top, in pixels of the film, counted from the grid's origin."""

    def edges(self, tile: Tile) -> tuple[int, int, int, int]:
        """Returns left, top, right and bottom of a tile, in pixels of the film.

        Neighbours touch each other, whatever the scale.
        """
        (across, down), (x, y) = self._step, self.corner
        left, right = (floor(column * across + 0.5) - x for column in (tile.column, tile.column + 1))
        top, bottom = (floor(row * down + 0.5) - y for row in (tile.row, tile.row + 1))
        return left, top, right, bottom

    @cached_property
    def tiles(self) -> TileRange:
        """The tiles that the film shows, in part or whole."""
        (across, down), (left, top), (width, height) = self._step, self.corner, self.size
        first = floor((left + 0.5) / across), floor((top + 0.5) / down)
        last = floor((left + width - 0.5) / across), floor((top + height - 0.5) / down)
        return TileRange.between(Tile.at(self.zoom, *first), Tile.at(self.zoom, *last))

    @cached_property
    def _step(self) -> tuple[float, float]:
        width, height = self.tile_size
        return width * self.scale, height * self.scale


@dataclass(frozen=True, slots=True)
class Film:
    """A film that is to be made."""

    excerpt: Excerpt
    lens: Lens
    days: tuple[date, ...]
    """The days that it shows, a frame for each."""
    ticks: tuple[int, ...]
    """The time for which each frame is shown."""
    title: str
    font: ImageFont.FreeTypeFont

    @property
    def seconds(self) -> float:
        return sum(self.ticks) / TICKS

    def in_words(self) -> str:
        """Returns a line about the film that will be made."""
        width, height = self.lens.size
        return (
            f"{self.excerpt.in_words()}, zoom {self.lens.zoom}: {counted(len(self.days), 'frame')} of"
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
            "frames": len(self.days),
            "seconds": self.seconds,
        }


def usual_ending() -> str:
    """Returns the ending of a film's name if nobody chooses one: a video if one can be written here."""
    return ".mp4" if find_spec("av") is not None else ".webp"


def film_ending_of(path: Path) -> str:
    """Returns the name's ending, which says the format, in small letters.

    Raises ConfigurationError for any other ending, and for a video if PyAV is missing."""
    ending = ending_of(path, FILM_FORMATS, "a film")
    if ending in _VIDEOS and find_spec("av") is None:
        raise ConfigurationError(
            f"{ending} needs PyAV: pip install av; .webp and .gif need nothing more; nothing was made"
        )
    return ending


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
    if size[0] * size[1] > _MOST_PIXELS:
        raise ConfigurationError(
            f"--size {text} cannot be: a frame that is packed in 300 MB of memory has {_MOST_PIXELS:,} pixels"
            " at most"
        )
    return size


def film_of(
    excerpt: Excerpt,
    path: Path,
    size: Size,
    zoom: int | None = None,
    every: str = "change",
    pace: float = 0.5,
    title: str = "",
) -> Film:
    """Returns the film of an excerpt.

    `every` is the time between two frames: `change`, `day`, `week` or `month`. Each frame is shown for `pace`
    seconds, and the last one longer. Raises ConfigurationError if nothing was there, if the film does not
    fit, or if no font has the signs of the title.
    """
    film_ending_of(path)
    # A line break has no place on a plate of one line.
    title = " ".join(title.split())
    lens = _lens(excerpt, size, zoom)
    days = _days(excerpt, every, lens)
    ticks = (*[max(1, round(pace * TICKS))] * (len(days) - 1), _END)
    return Film(excerpt, lens, tuple(days), ticks, title, _font(title, size))


def write_film(
    film: Film,
    path: Path,
    store: TileStore,
    watch: Watch,
    background: str | None = None,
    quality: int | None = None,
    most_bytes: int | None = None,
) -> tuple[int, int]:
    """Writes the film. Returns the file's bytes, and the number of images that cannot be read.

    The file has at most `most_bytes`, or is not made. `background` is the colour where nothing is, by default
    the site's. Several threads read the store. Raises TileHarvestError.
    """
    ending = film_ending_of(path)
    quality = quality or FILM_FORMATS[ending]
    ground = background_of(background, film.excerpt.described.background)
    watch.expects(len(film.days))
    with (
        made_whole(path, watch, most_bytes) as target,
        drawing_threads() as pool,
        composing(store, _REMEMBERED) as composer,
    ):
        frames = _watched(_frames(film, composer, ground, pool), target)
        if ending in _VIDEOS:
            _write_video(target, ending, film, frames, quality)
        else:
            _write_animation(target, ending, film, frames, quality)
    return path.stat().st_size, len(composer.unreadable)


def _watched(frames: Iterator[Image.Image], target: GrowingFile) -> Iterator[Image.Image]:
    for frame in frames:
        target.passed()
        yield frame


def _lens(excerpt: Excerpt, size: Size, zoom: int | None) -> Lens:
    """Returns the lens that shows the whole excerpt as large as it fits, with its middle in the lens's own.

    If no zoom is given, it is the coarsest one that need not be enlarged. The deepest zoom may be enlarged by
    a whole number, so that blocks stay squares.
    """
    (width, height), boxes = size, {zoom: excerpt.box(zoom) for zoom in excerpt.zooms()}
    # For each zoom the pixels of the film for one pixel of the box if a frame shows the whole box.
    scales = {
        zoom: min(width / box.width, height / box.height) for zoom, box in boxes.items() if box is not None
    }
    if not scales:
        raise nothing_there(excerpt)
    deepest = max(scales)
    if zoom is None:
        zoom = min((one for one, scale in scales.items() if scale <= 1), default=deepest)
        scale = scales[zoom] if scales[zoom] < 1 else min(_LARGEST_SCALE, int(scales[zoom]))
    else:
        zoom, scale = (zoom if zoom in scales else deepest), 1
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
    return Lens(zoom, excerpt.tile_size, scale, size, (left, top))


def _days(excerpt: Excerpt, every: str, lens: Lens) -> list[date]:
    """Returns the days of which the film has a frame."""
    changes = deepest_changes(excerpt.history, excerpt.layer, lens.tiles)
    first, last = excerpt.first, excerpt.last
    days = [first if any(day <= first for day in changes) else min(changes, default=last)]
    if every == "change":
        return days + [day for day in changes if days[0] < day <= last]
    while (following := _following(days[-1], every)) <= last:
        days.append(following)
    return days if days[-1] == last else [*days, last]


def _following(day: date, every: str) -> date:
    if every == "month":
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if every == "week" else 1)


# ------------------------------------------------------------------------------------------ drawing


def _frames(
    film: Film, composer: Composer, ground: tuple[int, int, int], pool: Executor
) -> Iterator[Image.Image]:
    """Yields the frames of a film, in RGB. The pool unpacks tiles; everything else happens in the caller's
    thread. Raises HistoryError."""
    pasts = (film.excerpt.past(film.lens.zoom, day) for day in film.days)
    for day, image in zip(film.days, _views(pasts, film.lens, composer, ground, pool), strict=True):
        frame, margin = image.copy(), int(film.font.size) // 2
        stamp = _plate(day.isoformat(), film.font, image.width)
        frame.paste(stamp, (margin, image.height - margin - stamp.height), stamp)
        if film.title:
            title = _plate(film.title, film.font, image.width)
            frame.paste(title, (margin, margin), title)
        yield frame


def _views(
    pasts: Iterable[PastLayer | None],
    lens: Lens,
    composer: Composer,
    ground: tuple[int, int, int],
    pool: Executor,
) -> Iterator[Image.Image]:
    """Yields what the lens shows of each state of the layer. Each view is the one before, on which the tiles
    that differ are drawn. None is a state in which nothing was there yet."""
    image = Image.new("RGB", lens.size, ground)
    shown: Mapping[Tile, Composition | str] = {}
    for past in pasts:
        parts = {} if past is None else composer.parts(past, lens.tiles)
        differing = [tile for tile in {**shown, **parts} if shown.get(tile) != parts.get(tile)]
        draw = partial(_drawn, past, parts, lens, composer, ground)
        drawn = each_in_order(pool, draw, differing, _AT_ONCE)
        for tile, picture in zip(differing, drawn, strict=True):
            image.paste(picture or ground, lens.edges(tile))
        shown = parts
        yield image


def _drawn(
    past: PastLayer | None,
    parts: Mapping[Tile, Composition | str],
    lens: Lens,
    composer: Composer,
    ground: tuple[int, int, int],
    tile: Tile,
) -> Image.Image | None:
    """Returns a tile on the ground, in the size in which it is shown, or None if there is nothing to show."""
    part = parts.get(tile)
    if past is None or part is None:
        return None
    image, _ = composer.image(past, part)
    left, top, right, bottom = lens.edges(tile)
    size = right - left, bottom - top
    if image is None or 0 in size:
        return None
    if size[0] < image.width:
        image = shrunk(image, size, past.has_one_zoom)
    elif size != image.size:
        # Enlarged blocks keep their edges.
        image = image.resize(size, Image.Resampling.NEAREST)
    return on_ground(image, ground)


def _plate(text: str, font: ImageFont.FreeTypeFont, width: int) -> Image.Image:
    """Returns a text on a plate, for a frame of this width."""
    pad = int(font.size) // 4
    left, _, right, _ = font.getbbox(text)
    # The font's own height makes all plates equally high, whatever their letters are.
    ascent, descent = font.getmetrics()
    widest = width - 4 * pad
    plate = Image.new(
        "RGBA", (min(widest, round(right - left) + 2 * pad), ascent + descent + 2 * pad), _PLATE
    )
    ImageDraw.Draw(plate).text((pad - left, pad), text, _INK, font)
    return plate


def _font(title: str, size: Size) -> ImageFont.FreeTypeFont:
    """Returns a font for films of this size that has every sign of the title. Raises ConfigurationError."""
    line = max(_SMALLEST_LINE, min(size) // _LINES)
    for name in ("", *_FONTS):
        with suppress(OSError):
            font = ImageFont.truetype(name, line) if name else ImageFont.load_default(line)
            assert isinstance(font, ImageFont.FreeTypeFont)
            # A sign that a font lacks looks like a sign that no font has.
            lacking = bytes(font.getmask("\U0010fffd"))
            if all(bytes(font.getmask(sign)) != lacking for sign in title):
                return font
    raise ConfigurationError(
        "no font of this computer has all signs of the title: install one that has, such as fonts-noto-cjk"
    )


# ------------------------------------------------------------------------------------------ writing


def _write_animation(
    target: GrowingFile, ending: str, film: Film, frames: Iterator[Image.Image], quality: int
) -> None:
    milliseconds = [number * 1000 // TICKS for number in film.ticks]
    if ending == ".gif":
        few = map(_with_few_colours, frames)
        next(few).save(target.file, "GIF", save_all=True, append_images=few, duration=milliseconds, loop=0)
    else:
        # A `kmax` of 0 means that no picture is packed as a whole again.
        _Animation(film, frames).save(
            target.file, "WEBP", save_all=True, duration=milliseconds, quality=quality, method=2, kmax=0
        )


class _Animation(Image.Image):
    """The frames of a film as an animated image, which Pillow can save: each is drawn when Pillow seeks
    it."""

    def __init__(self, film: Film, frames: Iterator[Image.Image]) -> None:
        super().__init__()
        self._mode, self._size = "RGB", film.lens.size
        self.n_frames = len(film.days)
        self.is_animated = self.n_frames > 1
        self._frames = frames
        self._at = -1
        self.seek(0)

    def tell(self) -> int:
        return 0

    def seek(self, frame: int) -> None:
        """Draws the next frame. A call for an earlier one does nothing."""
        if frame > self._at:
            self.im, self._at = next(self._frames).im, frame


def _with_few_colours(frame: Image.Image) -> Image.Image:
    # The octree keeps rare colours and is fast, whatever the picture is. Few colours are kept exactly.
    few = frame.getcolors(_GIF_COLOURS) is not None
    way = Image.Quantize.MEDIANCUT if few else Image.Quantize.FASTOCTREE
    return frame.quantize(_GIF_COLOURS, way, dither=Image.Dither.NONE)


def _write_video(
    target: GrowingFile, ending: str, film: Film, frames: Iterator[Image.Image], quality: int
) -> None:
    import av  # noqa: PLC0415 - an extra, loaded where it is used
    from av.codec.codec import UnknownCodecError  # noqa: PLC0415
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    share, options = quality / 100, {"movflags": "faststart"} if ending == ".mp4" else {}
    if ending == ".mp4":
        # x264: 75 is its 20, which looks like the original to most people. The rest spares 70 MB of memory.
        spared = {"rc-lookahead": "4", "x264-params": "bframes=0:sync-lookahead=0"}
        name, how = "libx264", {"preset": "superfast", "crf": f"{50 - 40 * share:.0f}", **spared}
    else:
        # AV1 by SVT, which takes 90 MB for 1080p where VP9 by libvpx takes 165. In its mode for calls preset
        # 12 is as good as preset 10 in the usual mode, for three quarters of the CPU. It writes about itself
        # on stderr unless the environment says otherwise.
        os.environ.setdefault("SVT_LOG", "1")
        spared = {"svtav1-params": "rtc=1:lookahead=0:pred-struct=1:lp=2:scd=0"}
        name, how = "libsvtav1", {"preset": "12", "crf": f"{63 - 38 * share:.0f}", **spared}
    try:
        # PyAV gets the name, not the file: at the end it reads an .mp4 again to put its index first.
        with av.open(target.file.name, "w", format=ending[1:], options=options) as container:
            stream = container.add_stream(name, rate=TICKS, options=how)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = film.lens.size
            stream.codec_context.gop_size = 250
            stream.pix_fmt = "yuv420p"
            stream.thread_count = min(_THREADS, os.cpu_count() or 1)
            context = stream.codec_context
            context.time_base = Fraction(1, TICKS)
            # These are the colours of televisions. Without them a player guesses the colours by the size.
            context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
            context.color_primaries = context.color_trc = 1
            for frame, ticks, end in zip(frames, film.ticks, accumulate(film.ticks), strict=True):
                drawn = av.VideoFrame.from_image(frame)  # type: ignore[no-untyped-call]
                shown = drawn.reformat(
                    format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
                )
                # The last frame comes again in the last tick, where the film ends.
                for at in (end - ticks, end - 1)[: 1 + (end == sum(film.ticks))]:
                    shown.pts, shown.time_base = at, Fraction(1, TICKS)
                    container.mux(stream.encode(shown))
            container.mux(stream.encode(None))
    except UnknownCodecError:
        raise ConfigurationError(
            f"{ending} needs the codec {name}, which the PyAV of this computer lacks; nothing was made:"
            " pip install --force-reinstall --only-binary av av"
        ) from None
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error
