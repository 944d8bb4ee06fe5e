"""A long history: a repository in which a map changes day after day, imported with `scrapy import git`.

A few places change all the time, and with a changed tile all tiles above it. The same number of versions
always gives the same history.
"""

from __future__ import annotations

import io
import itertools
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from PIL import Image

from bench.cost import RunFailedError, scrapy
from bench.site import LAYER, TILE_SIZE, config, tile_paths
from tests.servers.repositories import git

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.cost import Cost

MAP: Final = "bench"
DAYS: Final = tuple(date(2024, 1, 1) + timedelta(days=number) for number in range(325))
_IMAGES: Final = 200
"""The images that differ. To draw them takes longer than to read them."""
_CELLS: Final = 96
"""The squares of one colour along an image's edge: it has about 10 kB."""
_TOWNS: Final = 18
"""The places that change most, of 64 tiles each."""
_IN_TOWN: Final = 0.8
"""The share of changes that lie in a town."""


def make(folder: Path, versions: int, depth: int) -> Cost:
    """Makes a project with this history of a map in a folder, which must not exist.

    Returns the cost of the import. Raises RunFailedError for so few versions that some days have none.
    """
    least = sum(4**level for level in range(1, depth + 1)) + len(DAYS) * depth
    if versions < least:
        raise RunFailedError(f"--versions {versions} cannot be: a map of this depth needs {least} or more")
    folder.mkdir()
    (folder / "maps.toml").write_text(f'[{MAP}]\nurl = "https://map.example.net/"\ntimezone = "UTC"\n')
    repository = str(folder / "map.git")
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", repository)
    stream = b"".join(_stream(versions, depth, Random(1)))  # noqa: S311 - the same history each time
    git(folder, "-C", repository, "fast-import", "--quiet", given=stream)
    return scrapy(folder, "import", "git", repository, MAP)


def _stream(versions: int, depth: int, chance: Random) -> Iterator[bytes]:
    """Yields the lines of the repository for `git fast-import`."""
    for mark in range(1, _IMAGES + 1):
        body = terrain(chance)
        yield b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(body), body)
    drawn = dict.fromkeys(tile_paths(depth), 0)
    every = list(drawn)
    towns = [chance.choice(every[-(4**depth) :])[: -len("/0/0/0.png")] for _ in range(_TOWNS)]
    a_day = (versions - len(every)) // (len(DAYS) - 1)
    for day in DAYS:
        moment = datetime.combine(day, time(12), UTC).timestamp()
        yield b"commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\n" % moment
        if day == DAYS[0]:
            page = config(depth).encode()
            yield b"M 100644 inline overviewerConfig.js\ndata %d\n%s\n" % (len(page), page)
        for number, path in enumerate(every if day == DAYS[0] else _changed(towns, a_day, depth, chance)):
            # Each version of a tile has another image than the one before.
            drawn[path] = (drawn[path] or number) % _IMAGES + 1
            yield b"M 100644 :%d %s\n" % (drawn[path], path.encode())


def _changed(towns: Sequence[str], number: int, depth: int, chance: Random) -> Sequence[str]:
    """Returns the paths of about this number of tiles that change together."""
    found: dict[str, None] = {}
    while len(found) < number:
        digits = chance.choices("0123", k=depth)
        if chance.random() < _IN_TOWN:
            digits = [*chance.choice(towns).removeprefix(f"{LAYER}/").split("/"), *digits[-3:]]
        found |= dict.fromkeys(f"{LAYER}/{'/'.join(part)}.png" for part in _with_those_above(digits))
    return list(found)


def _with_those_above(digits: Sequence[str]) -> Iterator[Sequence[str]]:
    return itertools.accumulate([digit] for digit in digits)


def terrain(chance: Random) -> bytes:
    """Returns the image of a tile with much detail."""
    colours = [chance.randbytes(3) for _ in range(24)]
    pixels = b"".join(chance.choices(colours, k=_CELLS * _CELLS))
    image, body = Image.frombytes("RGB", (_CELLS, _CELLS), pixels), io.BytesIO()
    image.resize((TILE_SIZE, TILE_SIZE), Image.Resampling.NEAREST).save(body, "PNG")
    return body.getvalue()
