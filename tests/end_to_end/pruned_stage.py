"""What the tests of pruned walks share: what harvests say, and what they leave."""

import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.end_to_end.project import LayerTile, Project

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


def latest(project: Project) -> dict[LayerTile, bytes]:
    """The tiles that the history takes for present, with their bytes."""
    stored, found = project.stored(), {}
    for version in sorted(project.versions(), key=lambda version: version.day):
        if version.sha1 is None:
            found.pop(version.tile, None)
        else:
            found[version.tile] = stored[f"{version.sha1[:2]}/{version.sha1}.{version.extension}"]
    return found


def counts(project: Project) -> dict[str, int]:
    """Of the last harvest: tiles by outcome."""
    rows = project.query(
        "SELECT outcome, sum(tiles) FROM harvest_counts"
        " WHERE harvest = (SELECT max(id) FROM harvests) GROUP BY outcome"
    )
    return {outcome: int(tiles) for outcome, tiles in rows}


def twin(project: Project, url: str, name: str, folder: Path, **keys: Any) -> Project:
    """A project with a copy of the same data, and the same map with other keys."""
    folder.mkdir()
    other = Project(folder)
    other.adopt(project.data)
    other.add_map(name, url, **keys)
    return other
