"""What must hold in a data folder at any moment, and what of it must be the same as without a crash."""

from __future__ import annotations

from hashlib import sha1
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.end_to_end.project import LayerTile, Project, RecordedVersion


class State(NamedTuple):
    """All that a harvest leaves behind, but for numbers and times of its own."""

    versions: set[RecordedVersion]
    outcomes: dict[LayerTile, str]
    images: dict[str, bytes]
    ends: list[tuple[str, str | None]]
    """Day and end of every harvest."""
    counts: dict[tuple[str, str], int]
    """Tiles by day and outcome, as kept when harvests ended."""


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
    """Of the store what has a name; what a killed writer left behind has none yet."""
    return {name: content for name, content in project.stored().items() if not is_leftover(name)}


def is_leftover(name: str) -> bool:
    return PurePosixPath(name).name.startswith(".")


def assert_sound(project: Project) -> None:
    """A readable database, no row without its bytes, and no image under a name that is not its own."""
    for name, content in images(project).items():
        assert PurePosixPath(name).stem == sha1(content).hexdigest()
    if not project.database.exists():
        return
    assert project.query("PRAGMA integrity_check") == [("ok",)]
    assert project.query("PRAGMA foreign_key_check") == []
    if project.query("SELECT 1 FROM sqlite_master WHERE name = 'versions'"):
        named = {f"{row.sha1[:2]}/{row.sha1}.{row.extension}" for row in project.versions() if row.sha1}
        assert named <= images(project).keys()
