"""Films as files: which forms there are, and how they are written frame by frame."""

from __future__ import annotations

import os
from contextlib import suppress
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PIL import Image

from tileharvest.errors import ConfigurationError
from tileharvest.export.target import made_whole
from tileharvest.pictures.animations import ApngFile, GifFile, WebpFile, write_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import BinaryIO

    from tileharvest.pictures.animations import AnimationFile
    from tileharvest.tiles.layers import Size

    Shots = Iterable[tuple[Image.Image, int]]
    """Pictures of RGB, each with the number of ticks for which it is shown."""

TICKS: Final = 20
"""Of a second. A GIF counts hundredths of a second."""
HOW_TO_INSTALL: Final = "pip install '.[film]'"
"""To be run in the project's folder."""

_LONGEST_STILL: Final = TICKS
"""Ticks after which a video repeats a picture that stays: players that jump find one a second away."""
_THREADS: Final = 2


class FilmForm(NamedTuple):
    """A form of files for films."""

    name: str
    is_video: bool
    most_pixels: int
    """Of a frame, that are packed in 300 MB of memory."""
    still: float
    """Bytes of a pixel of a whole frame, about, of maps of the game."""
    moving: float
    """Bytes of a pixel that changes, for all frames in which it does."""


FILM_FORMS: Final = {
    ".mp4": FilmForm("mp4", is_video=True, most_pixels=1920 * 1200, still=0.15, moving=1.5),
    ".webm": FilmForm("webm", is_video=True, most_pixels=1920 * 1200, still=0.15, moving=0.8),
    ".webp": FilmForm("WEBP", is_video=False, most_pixels=1920 * 1200, still=0.15, moving=1.2),
    ".avif": FilmForm("AVIF", is_video=False, most_pixels=1920 * 1200, still=0.1, moving=0.8),
    ".gif": FilmForm("GIF", is_video=False, most_pixels=1920 * 1200, still=0.5, moving=2.0),
    ".apng": FilmForm("PNG", is_video=False, most_pixels=1920 * 1200, still=1.2, moving=6.0),
}
"""By the ending of a file's name."""


def film_form_of(path: Path) -> FilmForm:
    """Returns the form that the name's ending tells.

    Raises ConfigurationError for any other, and for a video where PyAV is missing.
    """
    form = FILM_FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigurationError(
            f"{path.name} is no name of a film: end it with {', '.join(FILM_FORMS)}; nothing was made"
        )
    if form.is_video and find_spec("av") is None:
        raise ConfigurationError(
            f"{path.suffix} needs the extra tileharvest[film]: {HOW_TO_INSTALL}; .webp, .gif, .apng and .avif"
            " need nothing more; nothing was made"
        )
    return form


def write_film_file(path: Path, size: Size, shots: Shots, pool: Executor, quality: int | None) -> int:
    """Writes the pictures as the film that the file's name says. Returns the file's bytes.

    `quality`, 1 to 100, is of the forms with loss. Raises TileHarvestError in one line where it cannot be
    written, and what `shots` raises; then there is no file, or the one from before.
    """
    form = film_form_of(path)
    with made_whole(path) as file:
        if form.is_video:
            _write_video(file, form, size, shots, quality)
        elif form.name == "AVIF":
            _write_avif(file, shots, quality)
        else:
            timed = ((image, ticks * 1000 // TICKS) for image, ticks in shots)
            write_frames(_animation(file, form, size, quality), timed, pool)
        return file.seek(0, os.SEEK_END)


def _animation(file: BinaryIO, form: FilmForm, size: Size, quality: int | None) -> AnimationFile:
    if form.name == "WEBP":
        return WebpFile(file, size, quality or 80)
    return (GifFile if form.name == "GIF" else ApngFile)(file, size)


def _write_video(file: BinaryIO, form: FilmForm, size: Size, shots: Shots, quality: int | None) -> None:
    import av  # noqa: PLC0415 - an extra, loaded where it is used
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    share, options = (quality or 75) / 100, {"movflags": "faststart"} if form.name == "mp4" else {}
    if form.name == "mp4":
        # x264: 75 is its 20, which hardly anybody tells from the original. The rest spares 70 MB of memory.
        spared = {"rc-lookahead": "4", "x264-params": "bframes=0:sync-lookahead=0"}
        codec = "libx264", {"preset": "superfast", "crf": f"{50 - 40 * share:.0f}", **spared}
    else:
        speed = {"deadline": "realtime", "cpu-used": "7", "row-mt": "1", "lag-in-frames": "0"}
        codec = "libvpx-vp9", {"crf": f"{60 - 40 * share:.0f}", "b": "0", **speed}
    try:
        # By its name: what is needed first stands first in an .mp4, for which it is read again at the end.
        with av.open(file.name, "w", format=form.name, options=options) as container:
            stream = container.add_stream(codec[0], rate=TICKS, options=codec[1])
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            stream.thread_count = min(_THREADS, os.cpu_count() or 1)
            context = stream.codec_context
            context.time_base = Fraction(1, TICKS)
            # As televisions have it: a player that is told nothing guesses, by the size.
            context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
            context.color_primaries = context.color_trc = 1
            for image, at in _repeated(shots):
                drawn = av.VideoFrame.from_image(image)  # type: ignore[no-untyped-call]
                frame = drawn.reformat(
                    format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
                )
                frame.pts, frame.time_base = at, Fraction(1, TICKS)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error


def _repeated(shots: Shots) -> Iterator[tuple[Image.Image, int]]:
    """Yields each picture with the tick at which it begins, and again at least once a second.

    The last one is there in its last tick, too: that is where the film ends.
    """
    at = 0
    last: tuple[Image.Image, int] | None = None
    for image, ticks in shots:
        for begin in range(at, at + ticks, _LONGEST_STILL):
            yield image, begin
            last = image, begin
        at += ticks
    if last is not None and last[1] < at - 1:
        yield last[0], at - 1


def _write_avif(file: BinaryIO, shots: Shots, quality: int | None) -> None:
    sequence = _Sequence(shots)
    # Of AVIF's speeds 9 takes a tenth of the time of the usual 6.
    sequence.save(
        file,
        "AVIF",
        save_all=True,
        duration=sequence.milliseconds,
        quality=quality or 60,
        speed=9,
        max_threads=_THREADS,
    )


class _Sequence(Image.Image):
    """Pictures that come one after another, as Pillow saves them. Each is drawn when Pillow asks for it."""

    is_animated = True

    def __init__(self, shots: Shots) -> None:
        super().__init__()
        self._shots = iter(shots)
        self._at = -1
        self.milliseconds: list[int] = []
        """Of each picture that was asked for."""
        self.seek(0)

    def tell(self) -> int:
        return 0

    def seek(self, frame: int) -> None:
        """Goes to the next picture; backwards it does not go. Raises EOFError behind the last."""
        if frame <= self._at:
            return
        following: tuple[Image.Image, int] | None = None
        with suppress(StopIteration):
            following = next(self._shots)
        if following is None:
            raise EOFError
        image, ticks = following
        self.im, self._mode, self._size = image.im, image.mode, image.size
        self.milliseconds.append(ticks * 1000 // TICKS)
        self._at = frame

    def copy(self) -> Any:
        return self
