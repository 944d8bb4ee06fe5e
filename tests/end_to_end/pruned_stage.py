"""What the tests of pruned walks share: what harvests say, and what they leave."""

import re
from typing import Final, NamedTuple

from tests.end_to_end.project import Project

RARELY: Final = 100_000
"""Days from one full harvest to the next, for versions of a map that lie months apart."""
_WAYS: Final = {
    "every tile is asked": False,
    "what lies below unchanged tiles is skipped": True,
    "what its change index does not list is skipped": True,
}
_DECIDED: Final = re.compile(rf"INFO: layer (\S+): ({'|'.join(_WAYS)}): (.*)")


class Walked(NamedTuple):
    """How a harvest says that it walks a layer."""

    is_pruned: bool
    reason: str


def walked(log: str) -> dict[str, Walked]:
    """By layer, from what a crawl has written."""
    return {layer: Walked(_WAYS[way], reason) for layer, way, reason in _DECIDED.findall(log)}


def the_walk(log: str) -> Walked:
    """Of a map with one layer."""
    (found,) = walked(log).values()
    return found


def counts(project: Project) -> dict[str, int]:
    """Of the last harvest: tiles by outcome."""
    rows = project.query(
        "SELECT outcome, sum(tiles) FROM harvest_counts"
        " WHERE harvest = (SELECT max(id) FROM harvests) GROUP BY outcome"
    )
    return {outcome: int(tiles) for outcome, tiles in rows}
