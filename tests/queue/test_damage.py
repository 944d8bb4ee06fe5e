"""A queue's file in which a disk has changed a bit: 200 of them, drawn by a seed. It is found and said, or
what is leased is what was pushed."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Final

from tests.scheduler.driving import DAY, Driven, entry
from tileharvest.errors import QueueError
from tileharvest.queue.sqlite.queue import SqliteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FLIPS: Final = 200
PUSHED: Final = {f"a request for tile {number}" for number in range(60)}


def damaged(body: bytes) -> Iterator[bytes]:
    """Yields it with one flipped bit, in a byte that is not empty: databases have pages with room."""
    places = [place for place, byte in enumerate(body) if byte]
    for number in range(FLIPS):
        drawn, changed = Random(number), bytearray(body)
        changed[drawn.choice(places)] ^= 1 << drawn.randrange(8)
        yield changed


def refusals(file: Path, body: bytes, look: Callable[[Driven], None]) -> int:
    """Looks at each damaged queue. Returns how many were refused, each in one line that tells the way out."""
    refused = 0
    for changed in damaged(body):
        file.write_bytes(changed)
        with Driven(lambda: SqliteQueue(file)) as queue:
            try:
                look(queue.open())
            except QueueError as error:
                told = str(error)
            else:
                continue
            assert len(told.splitlines()) == 1
            assert re.search("start afresh with -a fresh=1|name another place for the queue", told)
            refused += 1
    return refused


def test_each_flipped_bit_of_a_queue_is_found_or_changes_no_request(tmp_path: Path) -> None:
    file = tmp_path / "world.sqlite"
    with Driven(lambda: SqliteQueue(file)).open() as queue:
        queue.push(*(entry(body) for body in sorted(PUSHED)))
        failed, *_ = queue.lease(6)
        queue.exchange(failed=[(failed, "as the test says")])

    def look(queue: Driven) -> None:
        leases = queue.lease(100)
        assert {lease.segment for lease in leases} <= {DAY, *_flips(DAY)}
        found = {lease.body.decode() for lease in leases} | {one.body.decode() for one in queue.failures()}
        assert found == PUSHED

    assert refusals(file, file.read_bytes(), look) > FLIPS / 3


def _flips(text: str) -> set[str]:
    """Returns the texts with one flipped bit."""
    raw = text.encode()
    return {
        (raw[:place] + bytes([byte ^ 1 << bit]) + raw[place + 1 :]).decode(errors="replace")
        for place, byte in enumerate(raw)
        for bit in range(8)
    }


def test_each_flipped_bit_of_what_was_seen_is_found_or_takes_no_request_for_seen(tmp_path: Path) -> None:
    file = tmp_path / "world.sqlite"
    with Driven(lambda: SqliteQueue(file)).open() as queue:
        for half in (1, 2):
            # What is pushed twice is looked up, and so is in the table; the rest stands in the log.
            queue.push(*(entry(f"{half} {number}") for number in range(300)))
            queue.push(entry("1 1"))
        done = queue.lease(1000)
        queue.exchange(finished=done)

    def look(queue: Driven) -> None:
        new = [entry(f"{half} {number}") for half in (3, 4) for number in range(300)]
        assert queue.push(*new).duplicates == 0
        assert len(queue.lease(1000)) == len(new)

    refusals(file, file.read_bytes(), look)
