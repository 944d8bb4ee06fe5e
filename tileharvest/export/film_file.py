"""The formats of films, and how PyAV and Pillow write them picture by picture."""

from __future__ import annotations

import os
from fractions import Fraction
from importlib.util import find_spec
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from PIL import Image

from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from av import VideoFrame

    from tileharvest.export.target import GrowingFile
    from tileharvest.tiles.layers import Size

TICKS: Final = 20
"""Ticks of a second. A GIF counts hundredths of a second, of which a tick has five."""
MOST_PIXELS: Final = 1920 * 1200
"""The most pixels of a frame that can be packed in 300 MB of memory."""
MOST_GIF_PIXELS: Final = 200_000_000
"""The most pixels of all pictures of a GIF. Pillow keeps each of them, a byte for a pixel, until the end."""
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


def write_film_file(
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
