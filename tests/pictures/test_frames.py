"""Frames of films: how far an outline reaches around what differs."""

from __future__ import annotations

import pytest
from PIL import Image

from tileharvest.pictures.frames import REACH, Scene, lit, outline_between, regions

SIZE = (300, 240)
WHOLE = (0, 0, *SIZE)


def scene(differing: tuple[int, int, int, int] | None = None) -> Scene:
    image = Image.new("RGB", SIZE)
    if differing is not None:
        image.paste((255, 255, 255), differing)
    return Scene((0, 0), {}, image, (WHOLE,))


@pytest.mark.parametrize("differing", [(150, 120, 151, 121), (151, 122, 155, 124), (132, 96, 180, 150)])
def test_an_outline_ends_within_the_region_of_what_differs(differing: tuple[int, int, int, int]) -> None:
    """It is looked for in the whole picture here, and within a tile's region by a film: there nothing may be
    cut off, and nothing may differ along the edges of what is replaced."""
    outline = outline_between(scene(), scene(differing))
    assert outline is not None
    drawn = lit(Image.new("RGB", SIZE), WHOLE, outline).getbbox()
    assert drawn is not None
    ((left, top, right, bottom),) = regions([differing], SIZE, REACH)
    assert left <= drawn[0] < drawn[2] <= right
    assert top <= drawn[1] < drawn[3] <= bottom
