"""What a queue holds that nobody has put there: it is refused, or is as nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Spider

from tests.fuzz import assert_told, damaged, fuzzed, nested
from tileharvest.politeness.rate_limit import Host
from tileharvest.queue.codec import CodecError, QueuedRequest, decode, encode
from tileharvest.queue.map_table import MapTable
from tileharvest.queue.requests import STATE
from tileharvest.queue.shared_states import decoded
from tileharvest.scheduler.request_writer import RequestWriter
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.questions import TileQuestion

WRITER: Final = RequestWriter(Spider("stub"))
HEAD: Final = QueuedRequest(
    version=2,
    url="http://map.example.net/world-day/0.png",
    method="HEAD",
    headers=(("If-None-Match", ('"1"',)),),
    meta={"download_slot": "map.example.net"},
    callback="parse",
    question=TileQuestion("world-day", Tile(0, 1, 1)),
)
KEYS: Final = sorted(
    {*json.loads(encode(HEAD)), "kind", "body", "cookies", "cb_kwargs", "errback", "priority", "flags"}
)
VALUES: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=5,
)
DEEP = nested("[", "]").map(str.encode) | nested('{"a":', "}").map(str.encode)


@fuzzed(400)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
def test_any_values_of_a_request_are_made_or_refused(values: dict[str, Any]) -> None:
    written = {**json.loads(encode(HEAD)), **values}
    body = json.dumps(written).encode("utf-8", errors="replace")
    try:
        request = WRITER.read(body, 1)
    except CodecError:
        return
    assert request.meta[STATE].attempt == 1


@fuzzed(300)
@given(damaged([encode(HEAD)]) | DEEP)
@example(b"[" * 5_000)
def test_any_bytes_of_a_request_are_made_or_refused(body: bytes) -> None:
    try:
        decode(body)
    except CodecError as error:
        assert_told(error)


@fuzzed(200)
@given(st.binary(max_size=60) | damaged([b'{"state":{},"maps":{"a":[1,2.0,"x"]}}']) | DEEP)
@example(b"[" * 5_000)
@example(b'{"a":' * 5_000)
def test_any_bytes_of_what_hosts_and_maps_share_are_read(body: bytes) -> None:
    for kind in (Host, MapTable):
        assert isinstance(decoded(kind, body, Path("state")), kind)
