"""A program for test_queue_kill: works on a queue until it is killed.

Argument: the queue's file. The requests are the numbers from 1 on, and the children of n are 2n and 2n + 1:
a walk that has no end. A child is pushed when its parent is finished, in the same step. The program writes
a line when it begins, and one for each step that was confirmed: `pushed 4 5 finished 2`.
"""

import asyncio
import sys
from pathlib import Path

from tileharvest.queue.port import Changes, Entry, Lease
from tileharvest.queue.sqlite.queue import SqliteQueue

SEGMENT = "2021-02-13"
MOST = 7
"""Leases at once."""


def entry(number: int) -> Entry:
    # Lanes and delays take turns, so that all of them are under way when it ends.
    due = 1.0 if number % 5 == 0 else None
    return Entry(b"%d" % number, SEGMENT, b"%d" % number, number % 3 - 1, due)


async def work(file: Path) -> None:
    # The first is pushed at every start. The others are new; of some of them the filter raises a false alarm.
    queue = SqliteQueue(file, max_attempts=1000, minus_share=4, expected=1, error_rate=0.9)
    await queue.open(0.0)
    leases = list((await queue.exchange(Changes(pushed=[entry(1)]), MOST, 0.0)).leases)
    say("began")
    while True:
        # The last lease fails, the one before is given back, if there are so many.
        finished, failed, returned = leases[:5], leases[6:], leases[5:6]
        parents = [number(lease) for lease in finished]
        children = [child for parent in parents for child in (2 * parent, 2 * parent + 1)]
        changes = Changes(
            pushed=[entry(child) for child in children],
            finished=finished,
            failed=[(lease, "no") for lease in failed],
            returned=returned,
        )
        leases = list((await queue.exchange(changes, MOST, 2.0)).leases)
        failures = [number(lease) for lease in failed]
        say("pushed", *children, "finished", *parents, "failed", *failures)


def number(lease: Lease) -> int:
    return int(lease.body)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
