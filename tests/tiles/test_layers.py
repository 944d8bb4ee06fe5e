"""What a layer can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid

LAYER = Layer("night", Pyramid(7), "webp")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "no name"),
        ({"image_extension": "gif"}, "'gif'"),
        ({"tile_size": (0, 384)}, "0 x 384 pixels"),
        ({"tile_size": (384, 0)}, "384 x 0 pixels"),
        ({"north_direction": 4}, "north direction 4"),
        ({"spawn": (0, 64, 2**63)}, "a number beyond 64 bits"),
        ({"rendered": 10**30}, "a number beyond 64 bits"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LAYER, **change)
