"""The import of a git repository: every day on which the map was committed becomes a harvest of that day."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.importers.fetched_commit import no_map
from tileharvest.importers.repository import Repository, etag_of
from tileharvest.importers.snapshot import LfsPointerError, NoTilesError
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import date
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from tileharvest.importers.imported_map import ImportedMap, ImportWatch
    from tileharvest.importers.repository import Commit
    from tileharvest.maps.description import GitEntry


class CommitSnapshot:
    """The files of a commit below the map's folder, as a `Snapshot`."""

    def __init__(self, name: str, ids: Mapping[str, str], folder: str, repository: Repository) -> None:
        """`ids` are the ids of the files' bytes, by paths from the top of the repository. Files outside of
        the map's folder may be among them. `folder` is the map's folder, without a slash at its end; empty
        for the top itself."""
        self.name = name
        self._ids = ids
        self._prefix = f"{folder}/" if folder else ""
        self._repository = repository

    def __contains__(self, path: str) -> bool:
        return f"{self._prefix}{path}" in self._ids

    def id(self, path: str) -> str:
        """Returns the id of the bytes of an existing file."""
        return self._ids[f"{self._prefix}{path}"]

    def validator(self, path: str) -> Validator:
        return Validator(etag_of(self.id(path)))

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        return self._repository.read([self.id(path) for path in paths])

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


class GitSource:
    """A branch of a repository with a map."""

    def __init__(self, repository: Repository, tip: str, folder: str) -> None:
        """`folder` is the map's folder in the repository."""
        self._repository = repository
        self._tip = tip
        self._folder = folder.strip("/").removeprefix("./").removesuffix(".")

    @classmethod
    def in_place(cls, folder: Path, branch: str | None, path: str | None) -> GitSource:
        """Opens the repository of a folder on this computer. Raises ConfigurationError if the folder has
        none."""
        repository, prefix = Repository.in_place(folder)
        return cls(repository, _tip(repository, branch), prefix if path is None else path)

    @classmethod
    def fetched(cls, entry: GitEntry, cache: Path, path: str | None) -> GitSource:
        """Fetches a branch into the folder `cache`. A later call fetches only what is new.

        Raises SiteError if the address cannot be reached.
        """
        repository = Repository.bare(cache, entry.url)
        repository.unlock()
        return cls(repository, repository.fetch(entry.branch or None), path or "")

    @property
    def name(self) -> str:
        """The name of this source in the history."""
        return f"git {self._repository.origin}"

    async def import_into(
        self, imported: ImportedMap, zone: ZoneInfo, today: date, watch: ImportWatch, *, rewritten: bool
    ) -> None:
        """Imports all days that were not imported yet. Each day is one transaction, so that a killed import
        goes on with the next day.

        Raises SiteError if the branch no longer has the commit that was imported last. With `rewritten` it
        raises nothing then, and imports the branch's days from the last imported day on. Raises SiteError if
        no commit has a map, and StoreError and HistoryError.
        """
        done = imported.days()
        first = self._first_day(done, rewritten=rewritten)
        paths = [self._folder] if self._folder else []
        watch.expects(self._repository.count(self._tip, paths))
        ids: dict[str, str] = {}
        why: SiteError | None = None
        is_any = bool(done)
        commits = self._repository.commits(self._tip, paths)
        for one in commit_days(commits, zone, today):
            _apply(ids, one.changes)
            changed = _below(self._folder, one.changes)
            is_new = done.get(one.day) != one.commit and (first is None or one.day >= first)
            if changed and is_new:
                snapshot = CommitSnapshot(f"commit {one.commit[:10]}", ids, self._folder, self._repository)
                try:
                    record = await imported.add(snapshot, changed, one.day, one.commit)
                except LfsPointerError:
                    # All later commits have such pointers, too, so the import ends here.
                    raise
                except SiteError as error:
                    why = error
                    if is_any or not isinstance(error, (UnrecognisedError, NoTilesError)):
                        watch.left_out(one.day, str(error))
                else:
                    is_any = True
                    watch.recorded(one.day, record)
            watch.passed(one.commits)
        if not is_any:
            raise no_map(self._repository, self._tip, self._folder, why)

    def _first_day(self, done: Mapping[date, str], *, rewritten: bool) -> date | None:
        """Returns the first day to import anew in a rewritten branch, or None if the branch was not
        rewritten."""
        last = max(done, default=None)
        if last is None or self._repository.has(self._tip, done[last]):
            return None
        if not rewritten:
            raise SiteError(
                f"the branch of {self._repository.name} was rewritten (a forced push): it no longer has"
                f" commit {done[last][:10]} of {last}, which was imported last; nothing was changed; add"
                " --rewritten to import what the branch has now of that day and later ones"
            )
        return last


def _tip(repository: Repository, branch: str | None) -> str:
    try:
        return repository.commit(branch or "HEAD")
    except SiteError:
        what = f"no branch '{branch}'" if branch else "no commit yet"
        raise ConfigurationError(f"{repository.name} has {what}; nothing was changed") from None


def _apply(ids: dict[str, str], changes: Mapping[str, str | None]) -> None:
    for path, blob in changes.items():
        if blob is None:
            ids.pop(path, None)
        else:
            ids[path] = blob


def _below(folder: str, paths: Iterable[str]) -> set[str]:
    """Returns the paths below a folder, relative to it."""
    if not folder:
        return set(paths)
    start = len(folder) + 1
    return {path[start:] for path in paths if path.startswith(f"{folder}/")}
