"""Zones are counted as the first harvester of such maps counted them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.tiles.grid import Zone

zones = st.builds(
    lambda x, y, width, height, zoom: Zone(center=(x, y), width=width, height=height, zoom=zoom),
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(-4, 0),
)


def counted_by_hand(zone: Zone) -> set[tuple[int, int]]:
    """Every integer point of the rectangle, tried: centres lie at odd multiples of 2^-zoom; the left and
    the upper edge belong to the zone, the right and the lower one do not."""
    unit = 2**-zone.zoom
    x, y = zone.center
    columns = [c for c in range(x - zone.width * unit, x + zone.width * unit) if c % (2 * unit) == unit]
    rows = [r for r in range(y + zone.height * unit, y - zone.height * unit, -1) if r % (2 * unit) == unit]
    return {(c, r) for c in columns for r in rows}


def test_zone_of_the_documentation_has_1624_tiles_from_its_known_upper_left_corner():
    tiles = Zone(center=(0, -8), width=56, height=29, zoom=-3).tiles()
    assert (len(tiles), tiles.x_from, tiles.y_to) == (1624, -440, 216)


@given(zones)
def test_tiles_are_those_counted_point_by_point(zone):
    tiles = zone.tiles()
    assert {(x, y) for x in tiles.columns for y in tiles.rows} == counted_by_hand(zone)


@given(zones, st.integers(-6, 0))
def test_tiles_at_another_zoom_are_those_that_share_ground(zone, zoom):
    ground = {
        (x, y)
        for cx, cy in counted_by_hand(zone)
        for x in range(cx - 2**-zone.zoom, cx + 2**-zone.zoom)
        for y in range(cy - 2**-zone.zoom, cy + 2**-zone.zoom)
    }
    width = 2 ** (1 - zoom)
    expected = {(x // width * width + width // 2, y // width * width + width // 2) for x, y in ground}
    found = zone.tiles_at(zoom)
    assert {(x, y) for x in found.columns for y in found.rows} == expected


@pytest.mark.parametrize(
    ("width", "height", "zoom", "message"),
    [(0, 1, 0, "empty"), (1, 0, 0, "empty"), (-3, 2, 0, "empty"), (1, 1, 1, "deepest")],
)
def test_a_zone_without_tiles_or_of_no_zoom_is_refused(width, height, zoom, message):
    with pytest.raises(ValueError, match=message):
        Zone(center=(0, 0), width=width, height=height, zoom=zoom)
