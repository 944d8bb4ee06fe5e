"""Files that nobody would think of: a probe of them ends with layers, or in one clear line."""

from __future__ import annotations

import gzip
import json
import struct
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import assert_told, damaged, fuzzed
from tests.renderers.sites import PAGE
from tests.renderers.test_bounds import WRITTEN, read
from tileharvest.errors import ConfigurationError, SiteError, printable
from tileharvest.renderers import unmined
from tileharvest.renderers.bluemap import parse_regions
from tileharvest.walk.walk import Walk

NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**400, 1e308, 5e-324]),
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(
        ["", "..", "/", "//h", "http://[", "{z}", "\ud800", "\0", "%", "{x.__class__}", "http://h:0/"]
    ),
)
VALUES: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=6,
)


def files_of(renderer: str, values: dict[str, str]) -> dict[str, str]:
    written = WRITTEN[renderer]
    return {name: written.filled(text, values) for name, text in written.files.items()}


def assert_probed(renderer: str, files: dict[str, str]) -> None:
    try:
        site = read(renderer, files)
    except (SiteError, ConfigurationError) as error:
        lines = [str(error)]
    else:
        lines = list(site.refused)
        for layer in site.layers:
            for tile in islice(Walk(layer.pyramid).start(), 4):
                assert layer.addresses.url_of(tile).encode()
    for line in lines:
        assert line == printable(line)


@pytest.mark.parametrize("renderer", WRITTEN)
@fuzzed(80)
@given(data=st.data())
def test_any_values_of_a_configuration(renderer: str, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(WRITTEN[renderer].keys)), min_size=1, max_size=3))
    values = {key: json.dumps(data.draw(VALUES)) for key in keys}
    if renderer == "xyz":
        values = {key: value for key, value in values.items() if key != "template"}
    assert_probed(renderer, files_of(renderer, values))


@pytest.mark.parametrize("renderer", WRITTEN)
@fuzzed(60)
@given(data=st.data())
def test_any_bytes_lost_or_changed_in_a_configuration(renderer: str, data: st.DataObject) -> None:
    files = files_of(renderer, {})
    name = data.draw(st.sampled_from(sorted(files)))
    text = files[name]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    files[name] = text[:start] + data.draw(st.text(max_size=6)) + text[end:]
    # Half a character has no bytes: no site can send it so.
    files[name] = files[name].encode("utf-8", errors="replace").decode()
    assert_probed(renderer, files)


TIMES = struct.pack(">4096i", *range(4096))
REGIONS = b"\n\0\0\x0b\0\x11last-update-times\0\0\x10\0" + TIMES + b"\0"
BITMAP = "var UnminedRegions = [{ x: -1, z: 0, m: new Uint32Array([1,0,4294967295]) }];"


@fuzzed(200)
@given(damaged([gzip.compress(REGIONS, mtime=0)]) | damaged([REGIONS]).map(gzip.compress))
def test_any_bytes_lost_or_changed_in_times_of_regions(body: bytes) -> None:
    try:
        assert len(parse_regions(body, PAGE)) == 4096
    except SiteError as error:
        assert_told(error)


@fuzzed(200)
@given(damaged([BITMAP.encode()]), st.lists(NUMBERS, max_size=3))
def test_any_values_of_a_bitmap_of_regions(body: bytes, numbers: list[int | float]) -> None:
    x, z, *words = [*numbers, -1, 0, 1][:4]
    group = f"{{ x: {x}, z: {z}, m: new Uint32Array({words}) }}"
    for text in (body.decode(errors="replace"), f"var UnminedRegions = [{group}];"):
        try:
            regions = unmined.parse_regions(text, PAGE)
        except SiteError as error:
            assert_told(error)
        else:
            assert all(isinstance(number, int) for place in regions for number in place)
