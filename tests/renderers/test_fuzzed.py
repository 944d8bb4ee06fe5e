"""Files that nobody would think of: a probe of them ends with layers, or in one clear line."""

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tests.renderers.test_bounds import WRITTEN, read
from tileharvest.errors import ConfigurationError, SiteError, printable
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
