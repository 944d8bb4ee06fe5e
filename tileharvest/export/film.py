"""A film: an excerpt of a map through a period, a frame for each of its states; PyAV or Pillow writes it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

from tileharvest.errors import ConfigurationError, counted
from tileharvest.export.excerpt import nothing_there
from tileharvest.export.target import made_whole
from tileharvest.history.changes import deepest_changes
from tileharvest.pictures.composer import composing
from tileharvest.pictures.frames import Frames, Legend, Lens, light, outline_between
from tileharvest.pictures.pixels import background_of
from tileharvest.pictures.threads import drawing_threads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from av import VideoFrame

    from tileharvest.export.excerpt import Excerpt
    from tileharvest.export.target import GrowingFile, Watch
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.layers import Size

SIZES: Final = {"wide": (1920, 1080), "square": (1080, 1080), "upright": (1080, 1920)}
"""The sizes of films by their names, in pixels."""

TICKS: Final = 20
"""Ticks of a second. A GIF counts hundredths of a second, of which a tick has five."""
_MOST_PIXELS: Final = 1920 * 1200
"""The most pixels of a frame that can be packed in 300 MB of memory."""
_LONGEST_STILL: Final = TICKS
"""Ticks after which a video repeats a picture that stays, so that a player that jumps finds one within a
second."""
_THREADS: Final = 2
_GIF_COLOURS: Final = 255
"""The most colours of a GIF's frame. One more is for pixels that stay, which Pillow makes transparent."""

FILM_FORMATS: Final = {".mp4": 75, ".webm": 75, ".webp": 80, ".gif": 100}
"""The formats by the ending of a file's name, each with the quality if none is asked for, from 1 to 100."""
_VIDEOS: Final = (".mp4", ".webm")
"""The formats that need PyAV."""

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


@dataclass(frozen=True, slots=True)
class Film:
    """A film that is to be made."""

    excerpt: Excerpt
    style: FilmStyle
    lens: Lens
    moments: tuple[tuple[date, bool], ...]
    """The states of the map that it shows: each by its day, and whether anything has changed in view since
    the one before."""

    def shots(self) -> list[tuple[int, int, bool]]:
        """Returns the pictures of the film in order: the number of the moment that it shows, the ticks for
        which it is shown, and whether it has an outline around what has changed since the moment before. A
        new state has outlines at first, and then stands alone."""
        pace, last = max(1, round(self.style.pace * TICKS)), len(self.moments) - 1
        found = []
        for number, (_, has_changed) in enumerate(self.moments):
            ticks = pace if number < last else _END
            lit = min(ticks, _OUTLINED) if has_changed else 0
            found += [(number, lit, True), (number, ticks - lit, False)]
        return [shot for shot in found if shot[1]]

    @property
    def seconds(self) -> float:
        return sum(ticks for _, ticks, _ in self.shots()) / TICKS

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


def usual_ending() -> str:
    """Returns the ending of a film's name if nobody chooses one: a video if one can be written here."""
    return ".mp4" if find_spec("av") is not None else ".webp"


def film_ending_of(path: Path) -> str:
    """Returns the name's ending, which says the format, in small letters.

    Raises ConfigurationError for any other ending, and for a video if PyAV is missing."""
    ending = path.suffix.lower()
    if ending not in FILM_FORMATS:
        raise ConfigurationError(
            f"{path.name} is not a name for a film: end it with {', '.join(FILM_FORMATS)}; nothing was made"
        )
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


def film_of(excerpt: Excerpt, path: Path, style: FilmStyle) -> Film:
    """Returns the film of an excerpt, which ends with the last harvest at the latest. Asks the history once
    for each frame.

    Raises ConfigurationError if nothing was there, or if the film does not fit.
    """
    film_ending_of(path)
    # Nothing is known of days after the last harvest.
    last = min(excerpt.last, excerpt.map.days[-1])
    excerpt = replace(excerpt, first=min(excerpt.first, last), last=last)
    lens = _lens(excerpt, style)
    film = Film(excerpt, style, lens, _moments(excerpt, style.every, lens))
    # A title that cannot be written with the fonts of this computer raises an error before anything is drawn.
    Legend(style.size, style.title)
    return film


def write_film(
    film: Film, path: Path, store: TileStore, watch: Watch, most_bytes: int | None = None
) -> tuple[int, int]:
    """Writes the film. Returns the file's bytes, and the number of images that cannot be read.

    The file has at most `most_bytes`, or is not made. Several threads read the store. Raises
    TileHarvestError.
    """
    ticks = [number for _, number, _ in film.shots()]
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

        _write_film_file(target, film.style.size, ticks, pictures(), film.style.quality)
        target.passed()
    return path.stat().st_size, len(composer.unreadable)


def _pictures(film: Film, frames: Frames) -> Iterator[Image.Image]:
    """Yields the pictures of a film."""
    legend, drawn, outline = Legend(film.lens.size, film.style.title), -1, None
    for number, _, is_outlined in film.shots():
        day, has_changed = film.moments[number]
        if number != drawn:
            drawn, before = number, frames.image
            frames.next(film.excerpt.past(film.lens.zoom, day))
            outline = outline_between(before, frames.image) if has_changed else None
        image = frames.image.copy()
        if outline is not None and is_outlined:
            light(image, outline)
        legend.write(image, day.isoformat())
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


def _moments(excerpt: Excerpt, every: str, lens: Lens) -> tuple[tuple[date, bool], ...]:
    """Returns the moments of the film, as `Film` has them."""
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
    changed = (any(before < of <= day for of in changes) for before, day in pairwise(days))
    return tuple(zip(days, [False, *changed], strict=True))


def _following(day: date, every: str) -> date:
    if every == "month":
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return day + timedelta(days=7 if every == "week" else 1)


def _write_film_file(
    target: GrowingFile,
    size: Size,
    ticks: Sequence[int],
    pictures: Iterator[Image.Image],
    quality: int | None,
) -> None:
    """Writes a film of pictures of this size, in RGB. `ticks` says for each picture how long it is shown.

    Raises OSError if the file cannot be written, ConfigurationError, and what the pictures raise.
    """
    ending = film_ending_of(target.target)
    quality = FILM_FORMATS[ending] if quality is None else quality
    milliseconds = [number * 1000 // TICKS for number in ticks]
    if ending in _VIDEOS:
        _write_video(target, ending, size, ticks, pictures, quality)
    elif ending == ".gif":
        frames = map(_gif_frame, pictures)
        next(frames).save(
            target.file, "GIF", save_all=True, append_images=frames, duration=milliseconds, loop=0
        )
    else:
        # A `kmax` of 0 means that no picture is packed as a whole again.
        _Animation(size, len(ticks), pictures).save(
            target.file, "WEBP", save_all=True, duration=milliseconds, quality=quality, method=2, kmax=0
        )


class _Animation(Image.Image):
    """The pictures of a film as an animated image, which Pillow can save: each is drawn when Pillow seeks
    it."""

    def __init__(self, size: Size, number: int, pictures: Iterator[Image.Image]) -> None:
        super().__init__()
        self._mode, self._size = "RGB", size
        self.n_frames = number
        self.is_animated = number > 1
        self._pictures = pictures
        self._at = -1
        self.seek(0)

    def tell(self) -> int:
        return 0

    def seek(self, frame: int) -> None:
        """Draws the next picture. A call for an earlier one does nothing."""
        if frame > self._at:
            self.im, self._at = next(self._pictures).im, frame


def _gif_frame(picture: Image.Image) -> Image.Image:
    # The octree keeps rare colours and is fast, whatever the picture is. Few colours are kept exactly.
    few = picture.getcolors(_GIF_COLOURS) is not None
    way = Image.Quantize.MEDIANCUT if few else Image.Quantize.FASTOCTREE
    return picture.quantize(_GIF_COLOURS, way, dither=Image.Dither.NONE)


def _write_video(
    target: GrowingFile,
    ending: str,
    size: Size,
    ticks: Sequence[int],
    pictures: Iterator[Image.Image],
    quality: int,
) -> None:
    import av  # noqa: PLC0415 - an extra, loaded where it is used
    from av.codec.codec import UnknownCodecError  # noqa: PLC0415
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    share, options = quality / 100, {"movflags": "faststart"} if ending == ".mp4" else {}
    if ending == ".mp4":
        # x264: 75 is its 20, which hardly anybody tells from the original. The rest spares 70 MB of memory.
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
            stream.width, stream.height = size
            stream.codec_context.gop_size = 250
            stream.pix_fmt = "yuv420p"
            stream.thread_count = min(_THREADS, os.cpu_count() or 1)
            context = stream.codec_context
            context.time_base = Fraction(1, TICKS)
            # These are the colours of televisions. Without them a player guesses the colours by the size.
            context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
            context.color_primaries = context.color_trc = 1
            for frame in _video_frames(ticks, pictures):
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except UnknownCodecError:
        raise ConfigurationError(
            f"{ending} needs the codec {name}, which the PyAV of this computer lacks; nothing was made:"
            " pip install --force-reinstall --only-binary av av"
        ) from None
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error


def _video_frames(ticks: Sequence[int], pictures: Iterator[Image.Image]) -> Iterator[VideoFrame]:
    """Yields a frame for each picture. A picture that stays is repeated at least once a second, and the last
    one in its last tick, where the film ends."""
    from av import VideoFrame  # noqa: PLC0415
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    ends = list(accumulate(ticks))
    for picture, end, shown in zip(pictures, ends, ticks, strict=True):
        drawn = VideoFrame.from_image(picture)  # type: ignore[no-untyped-call]
        frame: VideoFrame = drawn.reformat(
            format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
        )
        times = list(range(end - shown, end, _LONGEST_STILL))
        if end == ends[-1] and times[-1] < end - 1:
            times.append(end - 1)
        for at in times:
            frame.pts, frame.time_base = at, Fraction(1, TICKS)
            yield frame
