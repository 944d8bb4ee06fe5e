"""What must hold in a data folder at any moment, and the state in which a harvest must leave it."""

from hashlib import sha1
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.end_to_end.project import LayerTile, Project, RecordedVersion


class State(NamedTuple):
    """All that harvests leave behind, without ids, times and costs, which differ from run to run."""

    versions: set[RecordedVersion]
    outcomes: dict[LayerTile, str]
    images: dict[str, bytes]
    ends: list[tuple[str, str | None]]
    """The day of every harvest, and the reason of its end. None: it has not ended."""
    counts: dict[tuple[str, str], int]
    """How many tiles had an outcome, by day and outcome, as counted at the ends of harvests."""


def state(project: Project) -> State:
    ends = project.query("SELECT day, reason FROM harvests ORDER BY id")
    counts = project.query(
        "SELECT day, outcome, tiles FROM harvest_counts JOIN harvests ON harvests.id = harvest"
    )
    return State(
        versions=project.versions(),
        outcomes=project.outcomes(),
        images=images(project),
        ends=[(day, reason) for day, reason in ends],
        counts={(day, outcome): tiles for day, outcome, tiles in counts},
    )


def images(project: Project) -> dict[str, bytes]:
    """Returns the files of the store by their paths, without temporary files of killed writers."""
    return {name: content for name, content in project.stored().items() if not is_leftover(name)}


def is_leftover(name: str) -> bool:
    return PurePosixPath(name).name.startswith(".")


def assert_sound(project: Project) -> None:
    """Asserts that the database is whole, that each version has its image, and that each image has the SHA1
    that is its name."""
    for name, content in images(project).items():
        assert PurePosixPath(name).stem == sha1(content).hexdigest()
    if not project.database.exists():
        return
    assert project.query("PRAGMA integrity_check") == [("ok",)]
    assert project.query("PRAGMA foreign_key_check") == []
    if project.query("SELECT 1 FROM sqlite_master WHERE name = 'versions'"):
        named = {f"{row.sha1[:2]}/{row.sha1}.{row.extension}" for row in project.versions() if row.sha1}
        assert named <= images(project).keys()
