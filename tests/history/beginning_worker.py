"""A program for test_workers: one of several that harvest the same maps at the same time.

Arguments: the database's URL, the worker's number and the number of maps. It writes a line when it is ready
and begins when it is answered; at last it writes what it was given per map, as JSON.
"""

import json
import sys

from tests.history.making import began, record
from tests.history.shared_results import results_of
from tileharvest.history.costs import Cost
from tileharvest.history.database import History

BATCH = 3


def main(url: str, worker: int, maps: int) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with History.open(url) as history:
        harvests = [began(history, name=f"map{number}") for number in range(maps)]
        results = results_of(worker)
        for start in range(0, len(results), BATCH):
            record(harvests[0], results[start : start + BATCH], Cost(3, 50, 7))
    sys.stdout.write(json.dumps([[harvest.identity, harvest.continued] for harvest in harvests]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
