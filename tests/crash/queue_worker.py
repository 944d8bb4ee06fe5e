"""A program for test_queue_kill that works on a queue until it is killed.

Its argument is the queue's file. The requests are the numbers from 1 on. The children of n are 2n and
2n + 1, so the walk has no end. A child is pushed in the step that finishes its parent. The program writes
one line when it begins, and one line for each step that the queue has confirmed: `pushed 4 5 finished 2`.
"""

import asyncio
import sys
from pathlib import Path

from tileharvest.queue.port import Demand, End, Entry, Lease
from tileharvest.queue.sqlite.queue import SqliteQueue

SEGMENT = "2021-02-13"
MOST = 7
"""How many requests are leased at once."""


def entry(number: int) -> Entry:
    # Lanes and delays take turns, so that requests of all kinds are leased at the kill.
    due = 1.0 if number % 5 == 0 else None
    return Entry(b"%d" % number, SEGMENT, b"%d" % number, number % 3 - 1, due, slot=f"{number % 4}")


async def work(file: Path) -> None:
    # Each start pushes the first request again. With this error rate the filter takes many new ones for seen.
    queue = SqliteQueue(file, max_attempts=1000, expected=1, error_rate=0.9)
    await queue.open(SEGMENT, 0.0)
    leases = (await queue.exchange([entry(1)], (), Demand(MOST), 0.0)).leases
    say("began")
    while True:
        # Of seven leases the last one fails, and the one before it is released.
        finished, failed, released = leases[:5], leases[6:], leases[5:6]
        parents = [number(lease) for lease in finished]
        children = [child for parent in parents for child in (2 * parent, 2 * parent + 1)]
        ended = [
            *(End(lease.id, lease.attempt, "finish") for lease in finished),
            *(End(lease.id, lease.attempt, "fail", "no") for lease in failed),
            *(End(lease.id, lease.attempt, "release") for lease in released),
        ]
        pushed = [entry(child) for child in children]
        leases = (await queue.exchange(pushed, ended, Demand(MOST), 2.0)).leases
        failures = [number(lease) for lease in failed]
        say("pushed", *children, "finished", *parents, "failed", *failures)


def number(lease: Lease) -> int:
    return int(lease.body)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
