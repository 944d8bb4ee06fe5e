"""Requests survive the way through JSON unchanged, or are refused; reading runs nothing."""

from collections import namedtuple
from enum import StrEnum
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileharvest.queue.codec import CodecError, QueuedRequest, decode, encode

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
mappings = st.dictionaries(
    st.text(),
    st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8),
    max_size=4,
)
requests = st.builds(
    QueuedRequest,
    version=st.just(4),
    kind=st.text(),
    url=st.text(),
    method=st.text(),
    headers=st.lists(st.tuples(st.binary(), st.lists(st.binary()))),
    body=st.binary(),
    cookies=mappings | st.lists(mappings, min_size=1),
    meta=mappings,
    cb_kwargs=mappings,
    callback=st.none() | st.text(),
    errback=st.none() | st.text(),
    priority=st.integers(),
    dont_filter=st.booleans(),
    encoding=st.text(),
    flags=st.lists(st.text()),
)

Place = namedtuple("Place", "x y")  # noqa: PYI024 (without types it is a tuple like any other)


class Letter(StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


def stored(text: bytes) -> bytes:
    """Returns these bytes as a queue has them, with their checksum."""
    return b"%08x" % crc32(text) + text


in_itself: dict[str, object] = {}
in_itself["again"] = [in_itself]


@given(requests)
def test_request_comes_back_as_it_was(queued):
    assert decode(encode(queued)) == queued


def test_texts_of_a_class_of_their_own_come_back_as_plain_texts_and_tuples_as_lists():
    meta = {"x": (Text("a"), ("b",)), "y": Text("ü")}
    queued = decode(encode(QueuedRequest(version=4, url="http://a.example/", meta=meta)))
    assert queued.meta == {"x": ["a", ["b"]], "y": "ü"}
    assert {type(queued.meta["y"]), type(queued.meta["x"][0])} == {str}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("meta", {"x": {"y": [b"a"]}}, "meta has b'a'"),
        ("meta", {"x": float("nan")}, "meta has nan"),
        ("meta", {"x": {1: 2}}, "meta has {1: 2}"),
        ("meta", {Text("x"): 1}, "meta has {'x': 1}"),
        ("meta", {"x": Letter.A}, "meta has <Letter.A: 'a'>"),
        ("meta", {"x": Place(1, 2)}, "meta has Place(x=1, y=2)"),
        ("meta", {"x": "\ud800"}, "'utf-8' codec can't encode character '\\ud800'"),
        ("meta", {"x": 10**5000}, "Exceeds the limit"),
        ("meta", in_itself, "maximum recursion depth"),
        ("cookies", [{"name": "a"}, 1], "Expected `object`, got `int` - at `$.cookies[1]`"),
        ("callback", print, "descriptor '__str__' requires a 'str' object"),
        ("headers", [(b"A", "b")], "Expected `array`, got `str` - at `$.headers[0][1]`"),
    ],
)
def test_what_json_would_change_is_refused(field, value, problem):
    with pytest.raises(CodecError) as refusal:
        encode(QueuedRequest(**{"version": 4, "url": "http://a.example/", field: value}))
    assert str(refusal.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "truncated"),
        (b'{"url":"http://a.example/"}', "missing required field `v`"),
        (b'{"v":4,"url":"http://a.example/","__reduce__":["os.system","x"]}', "unknown field `__reduce__`"),
        (b'{"v":1,"url":"http://a.example/"}', "Invalid enum value 1"),
        (b'{"v":4,"url":"\xff"}', "utf-8"),
        (b'{"v":4,"url":"http://a.example/","meta":' + b'{"x":' * 100_000, "recursion"),
    ],
)
def test_unreadable_request_is_refused_with_its_problem(text, problem):
    with pytest.raises(CodecError, match="nothing of it was run") as refusal:
        decode(stored(text))
    assert problem in str(refusal.value)


def test_each_flipped_bit_is_noticed():
    body = encode(QueuedRequest(version=4, url="http://a.example/1"))
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CodecError, match="it was damaged"):
            decode(bytes(flipped))


@given(st.binary() | st.text().map(str.encode))
def test_reading_any_bytes_raises_nothing_else(body):
    with pytest.raises(CodecError):
        decode(body)
