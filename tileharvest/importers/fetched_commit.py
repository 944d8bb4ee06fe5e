"""The newest commit of a repository elsewhere, of which only those files are fetched that are needed."""

from __future__ import annotations

import fcntl
import re
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from tileharvest.importers.commits import etag_of, no_map
from tileharvest.importers.repository import UNFINISHED, Repository
from tileharvest.importers.snapshot import is_configuration
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from tileharvest.errors import SiteError
    from tileharvest.history.costs import Traffic
    from tileharvest.maps.description import GitEntry

_MOST_KEPT: Final = 256_000_000
"""Bytes of fetched files from which on they are thrown away, and fetched anew where they are needed. Else
each tile would be kept a second time for ever."""
_WITHOUT_BYTES: Final = ("--depth=1", "--filter=blob:none")
"""The commit and its trees alone: those of 28,247 tiles take 0.4 MB."""
_MOST_LIKELY: Final = 100
"""Files that are fetched with the trees because a probe is likely to read them: some kilobytes each."""
_REQUEST: Final = re.compile(rb"=> Send header: (?:GET|POST) ")
"""A request, in what git tells of its use of HTTP (GIT_TRACE_CURL)."""


class FetchedCommit:
    """A snapshot of a commit. What is read of it is fetched first, in one pack, unless it is here already.

    What it costs the host is counted, bytes while they come. A folder that several processes use is used by
    one after the other.
    """

    def __init__(
        self, entry: GitEntry, folder: Path, agent: str, traffic: Traffic, check: Callable[[], None]
    ) -> None:
        """Fetches the commit without its files. `folder` is where what is fetched is kept; it may be thrown
        away at any time. `agent` tells the host who asks. `check` is called every moment while something is
        fetched; what it raises ends that.

        Raises SiteError where the repository cannot be reached, and TileHarvestError without the git program.
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
        """Fetches the bytes of these files together, as far as they are not here. Raises SiteError."""
        wanted = {self._ids[path] for path in paths} - self._here
        if wanted:
            self._check()
            with self._counted() as watch:
                self._repository.fetch_blobs(wanted, watch)
            self._here |= wanted

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        """Raises SiteError where the bytes cannot be fetched."""
        self.fetch(paths)
        with self._repository.blobs() as blobs:
            yield from blobs.read([self._ids[path] for path in paths])

    def no_map(self, why: str) -> SiteError:
        """Returns what is said where no renderer knows the commit's files."""
        return no_map(self._repository, self._commit, self._entry.path, why)

    @contextmanager
    def _counted(self) -> Iterator[Callable[[], None]]:
        """Adds to the traffic what the host is asked within the block, and what it sends: that whenever what
        it yields is called, which then checks."""
        trace = self._folder / "trace"
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._repository.unlock()
            trace.unlink(missing_ok=True)
            there = packed_bytes(self._folder)

            def count() -> None:
                # A pack that was cut off is removed by git, and has been sent all the same.
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
                # Other ways than HTTP are asked once for each look.
                self._traffic.requests += asked or 1
                trace.unlink(missing_ok=True)


def packed_bytes(folder: Path) -> int:
    """Returns the bytes of the packs in a git folder, and of one that is on its way."""
    sizes = {}
    for packs in ("objects/pack/*.pack", UNFINISHED):
        for pack in folder.glob(packs):
            # One that is through gets another name, and has both for a moment.
            with suppress(FileNotFoundError):
                found = pack.stat()
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())
