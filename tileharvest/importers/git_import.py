"""The import of a git repository: every day on which the map was committed becomes a harvest of that day."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.importers.commit_snapshot import CommitSnapshot, inside, no_map
from tileharvest.importers.repository import Repository
from tileharvest.importers.snapshot import LfsPointerError, NoTilesError
from tileharvest.renderers.site import UnrecognisedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from tileharvest.importers.imported_map import ImportedMap, ImportWatch
    from tileharvest.importers.repository import Commit
    from tileharvest.maps.description import GitEntry


def commit_days(commits: Iterable[Commit], zone: ZoneInfo, today: date) -> Iterator[tuple[date, Commit]]:
    """Yields the days of these commits, each with its last commit, which has the changes of all commits of
    the day.

    A commit counts for the day on which it was committed, in the map's time zone. A commit that is dated
    before the one that it follows, or after today, had a wrong clock. It counts for the nearest possible day.
    """
    found: tuple[date, Commit] | None = None
    for commit in commits:
        day = min(commit.moment.astimezone(zone).date(), today)
        if found is not None and day > found[0]:
            yield found
            found = None
        if found is None:
            found = day, commit
        else:
            day, earlier = found
            changes = {**earlier.changes, **commit.changes}
            found = day, replace(commit, changes=changes, commits=earlier.commits + 1)
    if found is not None:
        yield found


class GitSource:
    """A branch of a repository with a map."""

    def __init__(self, repository: Repository, tip: str, folder: str) -> None:
        """`folder` is the map's folder in the repository."""
        self._repository = repository
        self._tip = tip
        self._prefix = inside(folder)

    @classmethod
    def in_place(cls, folder: Path, branch: str | None, path: str | None) -> GitSource:
        """Opens the repository of a folder on this computer. Raises ConfigurationError if the folder has
        none, or no such branch."""
        repository, prefix = Repository.in_place(folder)
        try:
            tip = repository.commit(branch or "HEAD")
        except SiteError:
            what = f"no branch '{branch}'" if branch else "no commit yet"
            raise ConfigurationError(f"{repository.name} has {what}; nothing was changed") from None
        return cls(repository, tip, prefix if path is None else path)

    @classmethod
    def fetched(cls, entry: GitEntry, cache: Path, path: str | None) -> GitSource:
        """Fetches a branch into the folder `cache`. A later call fetches only what is new.

        Raises SiteError if the address cannot be reached.
        """
        repository = Repository(cache, entry.url)
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
        paths = [self._prefix.rstrip("/")] if self._prefix else []
        watch.expects(self._repository.count(self._tip, paths))
        ids: dict[str, str] = {}
        why: SiteError | None = None
        is_any = bool(done)
        for day, commit in commit_days(self._repository.commits(self._tip, paths), zone, today):
            start = len(self._prefix)
            changes = {
                path[start:]: id_ for path, id_ in commit.changes.items() if path.startswith(self._prefix)
            }
            ids.update({path: id_ for path, id_ in changes.items() if id_ is not None})
            for path in [path for path, id_ in changes.items() if id_ is None]:
                ids.pop(path, None)
            is_new = done.get(day) != commit.id and (first is None or day >= first)
            if changes and is_new:
                snapshot = CommitSnapshot(commit.id, ids, self._repository)
                try:
                    record = await imported.add(snapshot, set(changes), day, commit.id)
                except LfsPointerError:
                    # All later commits have such pointers, too, so the import ends here.
                    raise
                except SiteError as error:
                    why = error
                    if is_any or not isinstance(error, (UnrecognisedError, NoTilesError)):
                        watch.left_out(day, str(error))
                else:
                    is_any = True
                    watch.recorded(day, record)
            watch.passed(commit.commits)
        if not is_any:
            raise no_map(self._repository, self._tip, self._prefix, why)

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
