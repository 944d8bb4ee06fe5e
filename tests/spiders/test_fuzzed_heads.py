"""Headers that nobody would think of, as the download handler hears them."""

from __future__ import annotations

from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from scrapy.http import Headers, Response

from tests.fuzz import fuzzed
from tileharvest.middlewares.diff import answer_of
from tileharvest.spiders.download import Reply, _headers
from tileharvest.spiders.queued_tiles import _answer_of

NAMES: Final = [b"ETag", b"Last-Modified", b"Content-Length", b"Location", b"Retry-After", b"X", b"", b" "]
LINES = st.one_of(
    st.builds(
        b"%b%b%b\r\n".__mod__,
        st.tuples(
            st.sampled_from(NAMES),
            st.sampled_from([b":", b": ", b" : ", b""]),
            st.one_of(
                st.binary(max_size=20), st.sampled_from([b"9" * 5_000, b"-1", "\u0661".encode(), b"0x1"])
            ),
        ),
    ),
    st.sampled_from([b"\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early\r\n", b"\n", b""]),
)


@fuzzed(800)
@given(st.lists(LINES, max_size=12), st.booleans())
@example([b"HTTP/1.1 200 OK\r\n", b"Content-Length: " + b"9" * 5_000 + b"\r\n"], True)
def test_any_head_makes_an_answer(lines: list[bytes], by_head: bool) -> None:
    """The short way makes the same of it as the middleware, but counts the bytes of an image itself."""
    headers = _headers(b"".join(lines), by_head=by_head)
    at_once = _answer_of(Reply(200, headers), by_head=by_head)
    answer = answer_of(Response("http://map.example.net/0.png", headers=Headers(headers)))
    assert at_once == (answer if by_head else replace(answer, length=0))
    assert answer.length is None or answer.length >= 0
    for text in (answer.validator.etag, answer.validator.last_modified, answer.location):
        assert text is None or text.encode("latin-1") is not None
