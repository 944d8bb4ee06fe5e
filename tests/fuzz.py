"""What the fuzz tests share: how many examples they try, and damaged input."""

from hypothesis import settings
from hypothesis import strategies as st

from tileharvest.errors import printable


def fuzzed(examples: int) -> settings:
    """Returns hypothesis settings for that many examples, the same ones each time. `pytest --all` tries a
    thousand times as many, other ones each time."""
    is_all = settings.get_current_profile_name() == "all"
    return settings(max_examples=examples * (1000 if is_all else 1), derandomize=not is_all, database=None)


@st.composite
def damaged(draw: st.DrawFn, bodies: list[bytes]) -> bytes:
    """Draws one of the bodies, with some bytes lost, changed, repeated or put in."""
    body = draw(st.sampled_from(bodies))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 40)))
        between = draw(st.one_of(st.binary(max_size=8), st.just(body[start:end] * 2), st.just(b"\xff" * 4)))
        body = body[:start] + between + body[end:]
    return body


def assert_told(error: Exception) -> None:
    """Asserts that the message is one line without characters that steer a terminal."""
    assert str(error) == printable(str(error))
