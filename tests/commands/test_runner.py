"""Which maps begin while others are under way, and how their lines of the log are told apart."""

from typing import Any

import pytest

from tileharvest.commands.runner import Runner


class Progress:
    def __init__(self, held: int) -> None:
        self.held = held

    def held_up(self) -> list[str]:
        return [f"held-{number}" for number in range(self.held)]


@pytest.mark.parametrize(
    ("at_once", "under_way", "held", "has_place"),
    [
        (2, 1, 0, True),
        (2, 2, 0, False),
        (2, 2, 1, True),
        (2, 3, 1, False),
        (2, 19, 19, True),
        (2, 20, 20, False),
        (1, 0, 0, True),
        (1, 1, 1, False),
    ],
    ids=[
        "one of two",
        "two of two",
        "one waits and leaves its place",
        "it goes on, and has its place again",
        "ten for each place",
        "no more than ten for each place, however they wait",
        "the first of them one after the other",
        "one after the other, also when one waits",
    ],
)
def test_a_map_begins_while_there_is_a_place(
    at_once: int, under_way: int, held: int, has_place: bool
) -> None:
    progress: Any = Progress(held)
    ended: Any = None
    tested = Runner(None, progress, ended, at_once=at_once, arguments={})  # type: ignore[arg-type]
    tested._crawlers.update(dict.fromkeys(map(str, range(under_way))))
    assert tested._has_place() is has_place
