"""Links in notices: the page reads from them what was meant, and finds the same block."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tileharvest.maps.permalink import permalink
from tileharvest.renderers.overviewer import projection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
blocks = st.integers(-999_999_999, 999_999_999)
looks = st.tuples(
    names, names, st.dates(date(1, 1, 1), date(9999, 12, 31)), blocks, blocks, st.integers(-30, 2)
)
units = st.integers(-1_000_000, 1_000_000).map(lambda halves: halves / 2)
points = st.tuples(units, units, st.sampled_from([16, 384, 512]), st.integers(0, 3))


@given(st.lists(looks, min_size=10, max_size=40))
@settings(max_examples=10)
def test_the_page_reads_what_a_link_says(call: Call, shown: list[tuple[Any, ...]]) -> None:
    links = [permalink("https://example.net/maps/?a=b#x", *look) for look in shown]
    assert all(link.startswith("https://example.net/maps/?a=b#map=") for link in links)
    keys = ("map", "layer", "day", "x", "z", "zoom")
    said = [dict(zip(keys, [*look[:2], str(look[2]), *look[3:]], strict=True)) for look in shown]
    assert call("permalink.js", "readHash", [[link] for link in links]) == said


def test_the_page_reads_a_place_of_the_earth(call: Call) -> None:
    """Also one so small that Python would write it with an exponent."""
    link = permalink("https://example.net/", "snow", "zoom10", date(2026, 11, 20), 8.112499, -0.000002, -1.5)
    (said,) = call("permalink.js", "readHash", [[link]])
    assert (said["x"], said["z"], said["zoom"]) == (8.112499, -0.000002, -1.5)


@given(st.lists(points, min_size=10, max_size=40))
@settings(max_examples=10)
def test_a_link_leads_to_the_block_that_the_page_names(call: Call, found: list[tuple[Any, ...]]) -> None:
    projections = [projection_of(size, north) for *_, size, north in found]
    asked = [
        [{"x": x, "y": y}, {"projection": msgspec.to_builtins(projection)}]
        for (x, y, *_), projection in zip(found, projections, strict=True)
    ]
    seen = [(place["x"], place["z"]) for place in call("projection.js", "blockAt", asked)]
    named = [projection.block_at(x, y) for (x, y, *_), projection in zip(found, projections, strict=True)]
    assert named == seen
