"""The commits of a repository as days of a map: the map's folder on each day, and the files that changed in
it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.errors import SiteError
from tileharvest.importers.snapshot_site import folders_of_map, without_map
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from tileharvest.importers.repository import Blobs, Commit, Repository


_SHOWN: Final = 5
"""The most folders or branches that a message names."""


def etag_of(blob: str) -> str:
    """Returns the ETag that a history has for bytes with this id that came through git."""
    return f'"git:{blob}"'


def is_git_etag(etag: str | None) -> bool:
    """Returns whether an ETag was made by `etag_of`."""
    return etag is not None and etag.startswith('"git:')


def no_map(repository: Repository, commit: str, folder: str, why: SiteError | None) -> SiteError:
    """Returns the error for a commit that has no map in a folder. `why` is the error of its last state."""
    place = f"{repository.name}{f', folder {folder}' if folder else ''}"
    entries = list(repository.tree(commit))
    found = folders_of_map((entry.path for entry in entries), why)
    maps = [one for one in found if one != (folder or ".")]
    submodules = [entry.path for entry in entries if entry.is_submodule]
    above = [path for path in submodules if f"{folder}/".startswith(f"{path}/")]
    submodule = next(iter(above or ([] if maps else submodules)), None)
    if submodule is not None:
        hint = f"{submodule} is a submodule, a repository of its own: name that one, as .gitmodules has it"
    elif maps:
        hint = f"name its folder, maybe {', '.join(maps[:_SHOWN])}"
    else:
        hint = without_map(why, found)
        branches = [name for name, paths in repository.branches().items() if folders_of_map(paths, why)]
        if branches:
            hint += f"; name a branch that has one, maybe {', '.join(branches[:_SHOWN])}"
    return SiteError(f"no map was found in {place}; nothing was changed: {hint}")


class CommitSnapshot:
    """The files of a commit below the map's folder, as a `Snapshot`."""

    def __init__(self, name: str, ids: Mapping[str, str], folder: str, blobs: Blobs) -> None:
        """`ids` are the ids of the files' bytes, by paths from the top of the repository. Files outside of
        the map's folder may be among them. `folder` is the map's folder, without a slash at its end; empty
        for the top itself."""
        self.name = name
        self._ids = ids
        self._prefix = f"{folder}/" if folder else ""
        self._blobs = blobs

    def __contains__(self, path: str) -> bool:
        return f"{self._prefix}{path}" in self._ids

    def id(self, path: str) -> str:
        """Returns the id of the bytes of an existing file."""
        return self._ids[f"{self._prefix}{path}"]

    def validator(self, path: str) -> Validator:
        return Validator(etag_of(self.id(path)))

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        return self._blobs.read([self.id(path) for path in paths])

    def paths(self) -> Iterable[str]:
        start = len(self._prefix)
        return (path[start:] for path in self._ids if path.startswith(self._prefix))


class CommitDay(NamedTuple):
    """A day on which the map was committed."""

    day: date
    commit: str
    """The id of the day's last commit. Its files are those of the day."""
    changes: Mapping[str, str | None]
    """The ids of the files that the day's commits have changed, by paths from the top. None stands for a file
    that was removed."""
    commits: int
    """The number of the day's commits."""


def commit_days(commits: Iterable[Commit], zone: ZoneInfo, today: date) -> Iterator[CommitDay]:
    """Yields the days of these commits, each with its last commit.

    A commit counts for the day on which it was committed, in the map's time zone. A commit that is dated
    before the one that it follows, or after today, had a wrong clock. It counts for the nearest possible day.
    """
    present: CommitDay | None = None
    for commit in commits:
        day = min(commit.moment.astimezone(zone).date(), today)
        if present is not None and day > present.day:
            yield present
            present = None
        changes, number = (present.changes, present.commits) if present else ({}, 0)
        its_day = present.day if present else day
        present = CommitDay(its_day, commit.id, {**changes, **commit.changes}, number + 1)
    if present is not None:
        yield present
