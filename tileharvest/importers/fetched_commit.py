"""The newest commit of a repository elsewhere. Only the files that are needed are fetched."""

from __future__ import annotations

import fcntl
import re
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from tileharvest.errors import SiteError
from tileharvest.importers.repository import UNFINISHED, Repository, etag_of
from tileharvest.importers.snapshot import NO_SIGN, folders_of_map, is_configuration
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tileharvest.history.costs import CostMeter
    from tileharvest.maps.description import GitEntry

_MOST_KEPT: Final = 256_000_000
"""The bytes of fetched files beyond which all are thrown away. Otherwise each tile would be kept a second
time for ever. Files that are needed again are fetched anew."""
_WITHOUT_BYTES: Final = ("--depth=1", "--filter=blob:none")
"""Options of git that fetch only the commit and its trees. The trees of 28,247 tiles take 0.4 MB."""
_MOST_LIKELY: Final = 100
"""The most files that are fetched in advance because a probe is likely to read them. They have some kilobytes
each."""
_SHOWN: Final = 5
"""The most folders or branches that a message names."""
_REQUEST: Final = re.compile(rb"=> Send header: (?:GET|POST) ")
"""Matches a request in git's log of its use of HTTP (GIT_TRACE_CURL)."""


class FetchedCommit:
    """A commit as a `Snapshot`. Before files are read, those that are not here yet are fetched, in one pack.

    Requests and bytes are counted, bytes while they come. Several processes may use the same folder; they
    take turns.
    """

    def __init__(
        self, entry: GitEntry, folder: Path, agent: str, traffic: CostMeter, check: Callable[[], None]
    ) -> None:
        """Fetches the commit without its files, except for those that a probe is likely to read.

        `folder` keeps the fetched files; it may be deleted at any time. `agent` is the user agent of its
        requests. Cost is added to `traffic`. `check` is called again and again during a fetch, and an
        error that it raises ends the fetch.

        Raises SiteError if the repository cannot be reached, and TileHarvestError if there is no git program.
        """
        self._traffic = traffic
        self._check = check
        self._folder = folder
        self._entry = entry
        if packed_bytes(folder) > _MOST_KEPT:
            shutil.rmtree(folder)
        trace = {"GIT_TRACE_CURL": str(folder / "trace"), "GIT_TRACE_CURL_NO_DATA": "1"}
        self._repository = Repository.bare(folder, entry.url, {**trace, "GIT_HTTP_USER_AGENT": agent})
        with self._counted() as watch:
            self._commit = self._repository.fetch(entry.branch or None, *_WITHOUT_BYTES, watch=watch)
        self.name = f"commit {self._commit[:10]}"
        path = entry.path.strip("/")
        self._prefix = f"{path}/" if path else ""
        self._ids = {
            one.path[len(self._prefix) :]: one.blob
            for one in self._repository.tree(self._commit, path)
            if one.path.startswith(self._prefix) and not one.is_submodule
        }
        self._here = self._repository.blobs_here()
        likely = [path for path in self._ids if is_configuration(path)]
        self.fetch(sorted(likely, key=lambda path: (path.count("/"), path))[:_MOST_LIKELY])

    def __contains__(self, path: str) -> bool:
        return path in self._ids

    def validator(self, path: str) -> Validator:
        return Validator(etag_of(self._ids[path]))

    def paths(self) -> Iterable[str]:
        return self._ids

    def fetch(self, paths: Iterable[str]) -> None:
        """Fetches the bytes of these files in one pack, unless they are here already. Raises SiteError."""
        wanted = {self._ids[path] for path in paths} - self._here
        if wanted:
            self._check()
            with self._counted() as watch:
                self._repository.fetch_blobs(wanted, watch)
            self._here |= wanted

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Yields the bytes of these files. Raises SiteError if they cannot be fetched."""
        self.fetch(paths)
        yield from self._repository.read([self._ids[path] for path in paths])

    def no_map(self, why: SiteError) -> SiteError:
        """Returns the error for a commit whose files no renderer knows."""
        return no_map(self._repository, self._commit, self._entry.path, why)

    @contextmanager
    def _counted(self) -> Iterator[Callable[[], None]]:
        """Counts the requests and bytes of a fetch within the block.

        Yields a function for the fetch to call again and again: it adds the bytes that have come so far, and
        then calls `check`. Requests are added when the block ends.
        """
        trace = self._folder / "trace"
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._repository.unlock()
            trace.unlink(missing_ok=True)
            there = packed_bytes(self._folder)

            def count() -> None:
                # Git removes a pack that was cut off. Its bytes were sent all the same, so the count never
                # falls.
                nonlocal there
                now = max(there, packed_bytes(self._folder))
                self._traffic.received_bytes += now - there
                there = now

            def watch() -> None:
                count()
                self._check()

            try:
                yield watch
            finally:
                count()
                asked = len(_REQUEST.findall(trace.read_bytes())) if trace.exists() else 0
                # Without HTTP, such as by ssh, nothing is traced, and a fetch counts as one request.
                self._traffic.requests += asked or 1
                trace.unlink(missing_ok=True)


def packed_bytes(folder: Path) -> int:
    """Returns the bytes of all packs in a git folder, including one that is still being fetched."""
    sizes = {}
    for packs in ("objects/pack/*.pack", UNFINISHED):
        for pack in folder.glob(packs):
            # Git renames a pack that is complete. For a moment it has both names, so it is counted by its
            # inode.
            with suppress(FileNotFoundError):
                found = pack.stat()
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


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
        hint = NO_SIGN if why is None else str(why)
        branches = [name for name, paths in repository.branches().items() if folders_of_map(paths, why)]
        if branches:
            hint += f"; name a branch that has one, maybe {', '.join(branches[:_SHOWN])}"
    return SiteError(f"no map was found in {place}; nothing was changed: {hint}")
