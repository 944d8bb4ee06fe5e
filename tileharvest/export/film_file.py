"""The forms of files for films, and how they are written frame by frame."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from PIL import Image

from tileharvest.errors import ConfigurationError
from tileharvest.export.target import made_whole
from tileharvest.pictures.animations import ApngFile, GifFile, WebpFile, write_frames
from tileharvest.pictures.frames import EDGE
from tileharvest.pictures.threads import each_in_order, open_threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import BinaryIO

    from av import VideoFrame

    from tileharvest.pictures.animations import AnimationFile
    from tileharvest.pictures.frames import Patch
    from tileharvest.tiles.layers import Size

    Shot = tuple[Sequence[Patch], int]
    """A picture of a film: the patches, in RGB, that differ from the picture before, and the number of ticks
    for which it is shown. The first picture has a patch of the whole. Along the edges of a patch nothing
    differs."""
    Shots = Iterable[Shot]

TICKS: Final = 20
"""Ticks of a second. A GIF counts hundredths of a second, of which a tick has five."""
HOW_TO_INSTALL: Final = "pip install av"
"""The command that installs PyAV, wherever TileHarvest was installed from."""

MOST_PIXELS: Final = 1920 * 1200
"""The most pixels of a frame that can be packed in 300 MB of memory."""
_LONGEST_STILL: Final = TICKS
"""Ticks after which a video repeats a picture that stays, so that a player that jumps finds one within a
second."""
_THREADS: Final = 2


class FilmForm(NamedTuple):
    """A form of files for films."""

    name: str
    is_video: bool
    quality: int = 100
    """The quality if none is asked for."""
    whole_after: int = sys.maxsize
    """The number of pictures after which a video has a whole one, which takes as much as the first."""
    most_bytes: int | None = None
    """The most bytes of a file that is packed in memory as a whole, within 300 MB. None for any other
    form."""

    @property
    def is_at_hand(self) -> bool:
        """Whether this form can be written on this computer. Videos need PyAV."""
        return not self.is_video or find_spec("av") is not None


FILM_FORMS: Final = {
    ".mp4": FilmForm("mp4", is_video=True, quality=75, whole_after=250),
    ".webm": FilmForm("webm", is_video=True, quality=75, whole_after=121),
    ".webp": FilmForm("WEBP", is_video=False, quality=80),
    # Pillow holds the packed bytes about three times until the end, and the encoder takes 115 MB for 1080p.
    ".avif": FilmForm("AVIF", is_video=False, quality=60, most_bytes=12_000_000),
    ".gif": FilmForm("GIF", is_video=False),
    ".apng": FilmForm("PNG", is_video=False),
}
"""The forms by the ending of a file's name."""


def usual_ending() -> str:
    """Returns the ending of a film's name if nobody chooses one: a video if one can be written here."""
    return ".mp4" if FILM_FORMS[".mp4"].is_at_hand else ".webp"


def film_form_of(path: Path) -> FilmForm:
    """Returns the form that the name's ending tells.

    Raises ConfigurationError for any other ending, and for a video if PyAV is missing."""
    form = FILM_FORMS.get(path.suffix.lower())
    if form is None:
        raise ConfigurationError(
            f"{path.name} is no name of a film: end it with {', '.join(FILM_FORMS)}; nothing was made"
        )
    if not form.is_at_hand:
        raise ConfigurationError(
            f"{path.suffix} needs PyAV: {HOW_TO_INSTALL}; .webp and .gif need nothing more; nothing was made"
        )
    return form


def write_film_file(path: Path, size: Size, shots: Shots, pool: Executor, quality: int | None) -> int:
    """Writes the pictures as a film in the form that the file's name tells. Returns the file's bytes.

    `quality`, 1 to 100, counts for forms with loss. Raises TileHarvestError with one line if the file cannot
    be written, and what `shots` raises. After an error there is no file, or the file from before.
    """
    form = film_form_of(path)
    chosen = form.quality if quality is None else quality
    with made_whole(path) as file:
        if form.is_video:
            _write_video(file, form, size, shots, chosen)
        elif form.name == "AVIF":
            _write_avif(file, size, shots, chosen)
        else:
            timed = ((patches, ticks * 1000 // TICKS) for patches, ticks in shots)
            write_frames(_animation(file, form, size, chosen), size, timed, pool)
        return file.seek(0, os.SEEK_END)


def _animation(file: BinaryIO, form: FilmForm, size: Size, quality: int) -> AnimationFile:
    if form.name == "WEBP":
        return WebpFile(file, size, quality)
    return (GifFile if form.name == "GIF" else ApngFile)(file, size)


def _write_video(file: BinaryIO, form: FilmForm, size: Size, shots: Shots, quality: int) -> None:
    import av  # noqa: PLC0415 - an extra, loaded where it is used
    from av.codec.codec import UnknownCodecError  # noqa: PLC0415
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    share, options = quality / 100, {"movflags": "faststart"} if form.name == "mp4" else {}
    if form.name == "mp4":
        # x264: 75 is its 20, which hardly anybody tells from the original. The rest spares 70 MB of memory.
        spared = {"rc-lookahead": "4", "x264-params": "bframes=0:sync-lookahead=0"}
        name, chosen = "libx264", {"preset": "superfast", "crf": f"{50 - 40 * share:.0f}", **spared}
    else:
        # AV1 by SVT, which takes 90 MB for 1080p where VP9 by libvpx takes 165. In its mode for calls preset
        # 12 is as good as preset 10 in the usual mode, for three quarters of the CPU. In the usual mode
        # presets above 10 leave visible faults, and those below 10 take 60 MB more. Two levels of parallelism
        # take 30 MB more than one. It tells of itself on stderr unless told not to.
        os.environ.setdefault("SVT_LOG", "1")
        spared = {"svtav1-params": "rtc=1:lookahead=0:pred-struct=1:lp=2:scd=0"}
        name, chosen = "libsvtav1", {"preset": "12", "crf": f"{63 - 38 * share:.0f}", **spared}
    try:
        # PyAV gets the name, not the file: at the end it reads an .mp4 again to put its index first.
        with av.open(file.name, "w", format=form.name, options=options) as container:
            stream = container.add_stream(name, rate=TICKS, options=chosen)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = size
            stream.codec_context.gop_size = form.whole_after
            stream.pix_fmt = "yuv420p"
            stream.thread_count = min(_THREADS, os.cpu_count() or 1)
            context = stream.codec_context
            context.time_base = Fraction(1, TICKS)
            # These are the colours of televisions. Without them a player guesses the colours by the size.
            context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
            context.color_primaries = context.color_trc = 1
            # A frame is drawn while the encoder has the one before: SVT lets its caller wait for each packet.
            with open_threads(1, "encode") as encoder:
                for packets in each_in_order(encoder, stream.encode, _frames(shots), 2):
                    container.mux(packets)
            container.mux(stream.encode(None))
    except UnknownCodecError:
        raise ConfigurationError(
            f".{form.name} needs the codec {name}, which the PyAV of this computer lacks; nothing was made:"
            " pip install --force-reinstall --only-binary av av"
        ) from None
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror) from error


def _frames(shots: Shots) -> Iterator[VideoFrame]:
    """Yields a frame for each picture, in memory of its own: the encoder may still hold those before."""
    last: VideoFrame | None = None
    for patches, at in _repeated(shots):
        frame = None if last is None else _copy(last)
        for patch in patches:
            if frame is None:
                frame = _in_video_colours(patch.image)
            else:
                _put(frame, patch)
        assert frame is not None
        frame.pts, frame.time_base = at, Fraction(1, TICKS)
        yield frame
        last = frame


def _copy(frame: VideoFrame) -> VideoFrame:
    from av import VideoFrame  # noqa: PLC0415

    copy = VideoFrame(frame.width, frame.height, frame.format.name)
    copy.colorspace, copy.color_range = frame.colorspace, frame.color_range
    for target, source in zip(copy.planes, frame.planes, strict=True):
        memoryview(target)[:] = memoryview(source)
    return copy


def _in_video_colours(image: Image.Image) -> VideoFrame:
    from av import VideoFrame  # noqa: PLC0415
    from av.video.reformatter import ColorRange, Colorspace  # noqa: PLC0415

    drawn = VideoFrame.from_image(image)  # type: ignore[no-untyped-call]
    # To begin threads for each patch takes longer than to turn its colours.
    turned: VideoFrame = drawn.reformat(
        format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG, threads=1
    )
    return turned


def _put(frame: VideoFrame, patch: Patch) -> None:
    """Draws a patch on a frame without its margin, whose colours are mixed with those beyond the patch."""
    turned = _in_video_colours(patch.image)
    width, height = patch.image.size
    left = EDGE if patch.left else 0
    top = EDGE if patch.top else 0
    right = width if patch.left + width == frame.width else width - EDGE
    bottom = height if patch.top + height == frame.height else height - EDGE
    for number, (source, target) in enumerate(zip(turned.planes, frame.planes, strict=True)):
        # The planes of colours have one value for two by two pixels.
        share = 2 if number else 1
        read, written = memoryview(source), memoryview(target)
        length = (right - left) // share
        for row in range(top // share, bottom // share):
            start = row * source.line_size + left // share
            place = (patch.top // share + row) * target.line_size + (patch.left + left) // share
            written[place : place + length] = read[start : start + length]


def _repeated(shots: Shots) -> Iterator[tuple[Sequence[Patch], int]]:
    """Yields the patches of each picture with the tick at which it begins, and no patches at least once a
    second while a picture stays.

    The last picture is repeated in its last tick, where the film ends.
    """
    at = shown = 0
    for patches, ticks in shots:
        yield patches, at
        for shown in range(at, at + ticks, _LONGEST_STILL):
            if shown > at:
                yield (), shown
        at += ticks
    if shown < at - 1:
        yield (), at - 1


def _write_avif(file: BinaryIO, size: Size, shots: Shots, quality: int) -> None:
    sequence = _Sequence(size, shots)
    # Speed 9 of AVIF takes a tenth of the time of speed 6, the usual one.
    sequence.save(
        file,
        "AVIF",
        save_all=True,
        duration=sequence.milliseconds,
        quality=quality,
        speed=9,
        max_threads=_THREADS,
    )


class _Sequence(Image.Image):
    """A sequence of pictures that Pillow can save. Each picture is drawn when Pillow asks for it."""

    is_animated = True

    def __init__(self, size: Size, shots: Shots) -> None:
        super().__init__()
        self._canvas = Image.new("RGB", size)
        self.im, self._mode, self._size = self._canvas.im, "RGB", size
        self._shots = iter(shots)
        self._at = -1
        self.milliseconds: list[int] = []
        """The milliseconds of each picture so far. Pillow reads them at the end."""
        self.seek(0)

    def tell(self) -> int:
        return 0

    def seek(self, frame: int) -> None:
        """Goes to the next picture. A call for an earlier one does nothing. Raises EOFError behind the
        last."""
        if frame <= self._at:
            return
        following: Shot | None = None
        with suppress(StopIteration):
            following = next(self._shots)
        if following is None:
            raise EOFError
        patches, ticks = following
        for patch in patches:
            self._canvas.paste(patch.image, (patch.left, patch.top))
        self.milliseconds.append(ticks * 1000 // TICKS)
        self._at = frame

    def copy(self) -> Any:
        return self
