"""What an export is told to, and a disk without room."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


class Count:
    """How many parts were expected, and how many are done."""

    expected = done = 0
    note = ""

    def expects(self, parts: int) -> None:
        self.expected = parts

    def passed(self, parts: int = 1) -> None:
        self.done += parts


@contextmanager
def most_bytes_of_a_file(most: int | None) -> Iterator[None]:
    """As on a disk with so much room, if any number is given: the system refuses what goes beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most or before[0], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
