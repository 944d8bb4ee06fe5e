"""Fuzzes with atheris, which follows the coverage of the code: images, and BlueMap's files of regions.

    .venv/bin/pip install atheris==3.0.0
    .venv/bin/python -m tests.fuzz_bytes images CORPUS -max_total_time=3600
    .venv/bin/python -m tests.fuzz_bytes regions CORPUS -max_total_time=3600

CORPUS is a folder with bodies to begin with, such as tiles of a real map. Bodies that reach new code are
written into it. Further arguments are libFuzzer's. The tests do not need atheris, which has wheels for few
Pythons only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import atheris  # type: ignore[import-not-found]

from tests.fuzz import assert_told

with atheris.instrument_imports(include=["tileharvest", "PIL"]):
    from tileharvest.errors import SiteError
    from tileharvest.renderers.bluemap import parse_regions
    from tileharvest.tiles.images import identify, is_transparent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def try_image(body: bytes) -> None:
    try:
        image = identify(body, (48, 48))
    except ValueError as error:
        assert_told(error)
    else:
        assert image.size == len(body)
    is_transparent(body)


def try_regions(body: bytes) -> None:
    try:
        assert len(parse_regions(body, "http://map.example.net/")) == 4096
    except SiteError as error:
        assert_told(error)


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {"images": try_image, "regions": try_regions}


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
