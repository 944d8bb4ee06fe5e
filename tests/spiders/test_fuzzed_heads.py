"""Headers that nobody would think of, as the download handler hears them."""

from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from tileharvest.spiders.transfer import Reply

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
    reply = Reply(200, b"".join(lines), b"")
    answer = reply.answer(by_head=by_head)
    assert answer.length is None or answer.length >= 0
    for text in (answer.validator.etag, answer.validator.last_modified, answer.location):
        assert text is None or text.encode("latin-1") is not None
    assert all(name == name.strip(b"\n") for name, _ in reply.headers())
