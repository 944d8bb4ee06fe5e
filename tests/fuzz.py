"""What the fuzz tests share: how many examples they try, and strategies for damaged input.

`make test` tries few examples, the same ones each time. `pytest --all` tries a thousand times as many, other
ones each time.
"""

import os
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from tileharvest.errors import printable

TIMES: Final = "TILEHARVEST_FUZZ_TIMES"
"""The environment variable that multiplies the number of examples."""


def fuzzed(examples: int) -> settings:
    """Returns hypothesis settings for so many examples, from a fixed seed. If `TIMES` is set, for that many
    times as many, from a new seed."""
    times = int(os.environ.get(TIMES, "1"))
    return settings(max_examples=examples * times, derandomize=times == 1, deadline=None, database=None)


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
