"""A git repository on this computer, read and filled by the git program, and its commits as snapshots."""

from __future__ import annotations

import fcntl
import os
import posixpath
import re
import select
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError, SiteError, TileHarvestError
from tileharvest.history.costs import CostMeter
from tileharvest.importers.snapshot import NO_SIGN, Snapshot, maps_within
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_FETCHED: Final = "refs/tileharvest/map"
"""The ref under which a fetched branch is kept, whatever its name."""

_UNFINISHED: Final = "objects/pack/tmp_pack_*"
"""The names, in the git folder, of packs that are still being fetched."""
_WITHOUT_BYTES: Final = ("--depth=1", "--filter=blob:none")
"""The options of git that fetch only a commit and its trees."""
_REQUEST: Final = re.compile(rb"=> Send header: (?:GET|POST) ")
"""Matches a request in git's log of its use of HTTP (GIT_TRACE_CURL)."""
_MOMENT: Final = 100
"""Milliseconds between two calls of the function that watches a fetch."""
_MOST_WORDS: Final = 1 << 16
"""The last bytes of git's messages that are kept. They hold the reason if git fails."""

SILENCE: Final = 900
"""Seconds without a word of git after which a fetch ends, however git reaches the host. Git itself waits
without end for an ssh that is silent. A host that makes a large pack says every second how far it is. When
all objects have come, git checks them without a word, which takes a slow disk some minutes for millions."""
_ENVIRONMENT: Final = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
"""Variables by which git asks nobody for a password, writes English messages, and takes no lock only to
read."""
_OF_HOOKS: Final = {"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"}
"""Variables by which a hook of git names its own repository. Git would work there, whatever its folder is."""

_CREDENTIALS: Final = re.compile(r"(?<=:)//[^/@]*@")
"""Matches the user and the password of an address."""
_UNREAD: Final = "fatal: Could not read from remote repository."
_SHOWN: Final = 5
"""The most folders or branches that a message names."""
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".webp")
_FILE_MODES: Final = ("100644", "100755")


class Repository:
    """A repository whose git folder is on this computer. If git fails, methods raise SiteError with git's own
    words.

    Several processes may fetch into one folder; they take turns.
    """

    def __init__(
        self,
        folder: Path,
        origin: str | None = None,
        *,
        agent: str | None = None,
        meter: CostMeter | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`origin` is the address that the repository is fetched from, for git and for messages. None: it is
        used in place. `agent` is the user agent of its requests, and `meter` counts them and the bytes that
        come. `check` is called again and again during a fetch, and an error that it raises ends the fetch.

        Raises TileHarvestError if the git program is missing.
        """
        self.folder = folder
        self._address = origin
        self.name = _CREDENTIALS.sub("//", origin or str(folder))
        """The name in messages and in the history, where no password belongs."""
        self._program = program()
        inherited = {name: text for name, text in os.environ.items() if name not in _OF_HOOKS}
        self._environment = inherited | _ENVIRONMENT
        if origin is not None:
            # Otherwise git would look for a repository in the folders above, if this one were damaged.
            self._environment["GIT_DIR"] = "."
        if agent is not None:
            self._environment["GIT_HTTP_USER_AGENT"] = agent
        self._meter = meter or CostMeter()
        self._check = check
        self._here: set[str] | None = None
        """The ids of all bytes that are here, if only some of them were fetched."""

    @classmethod
    def in_place(cls, folder: Path, branch: str | None) -> tuple[Repository, str, str]:
        """Returns the repository to which a folder of this computer belongs, the newest commit of the branch,
        and the folder's path within the repository.

        Raises ConfigurationError for a folder of no repository, for a shallow repository, which lacks its
        past, and if there is no such branch.
        """
        repository = cls(folder)
        try:
            prefix = repository._said("rev-parse", "--show-prefix").strip("\n")
        except SiteError as error:
            raise ConfigurationError(
                f"{folder} is not a git repository ({error}); nothing was changed"
            ) from None
        if repository._said("rev-parse", "--is-shallow-repository").strip() == "true":
            raise ConfigurationError(
                f"{folder} is a shallow clone, which lacks the commits before its first one; nothing was"
                f" imported: run `git -C {folder} fetch --unshallow`, or import from the address it is of"
            )
        try:
            return repository, repository.commit(branch or "HEAD"), prefix
        except SiteError:
            what = f"no branch '{branch}'" if branch else "no commit yet"
            raise ConfigurationError(f"{folder} has {what}; nothing was changed") from None

    def fetch(self, branch: str | None, *, is_whole: bool = True) -> str:
        """Fetches a branch and returns its newest commit. None fetches the branch that a clone would check
        out. If it is not `is_whole`, only the commit and its trees are fetched; those of 28,247 tiles take
        0.4 MB.

        A kill leaves what was there before, and git ends with this process. Raises SiteError if the address
        cannot be reached, or is silent for SILENCE seconds.
        """
        wanted = f"refs/heads/{branch}" if branch else "HEAD"
        try:
            self._fetch(() if is_whole else _WITHOUT_BYTES, f"+{wanted}:{_FETCHED}")
        except SiteError as error:
            raise SiteError(
                f"{self.name} cannot be fetched ({error}); what was kept before is kept: is the address"
                " right, and the branch? try again later"
            ) from None
        if not is_whole:
            form = "--batch-check=%(objecttype) %(objectname)"
            said = self._said("cat-file", "--batch-all-objects", "--unordered", form)
            self._here = {line[5:] for line in said.splitlines() if line.startswith("blob ")}
        return self.commit(_FETCHED)

    def fetch_lacking(self, ids: Iterable[str]) -> None:
        """Fetches the bytes with these ids that are not here yet, in one pack. Raises SiteError."""
        if self._here is None or not (lacking := set(ids) - self._here):
            return
        try:
            self._fetch(("--filter=blob:none", "--stdin"), given="\n".join(lacking))
        except SiteError as error:
            raise SiteError(
                f"the changed files of {self.name} cannot be fetched ({error}); what was found is kept: run"
                " it again later"
            ) from None
        self._here |= lacking

    def commit(self, revision: str) -> str:
        """Returns the id of the commit that a branch, a tag or an abbreviated id names."""
        named = f"{revision}^{{commit}}"
        return self._said("rev-parse", "--verify", "--quiet", "--end-of-options", named).strip()

    def has(self, tip: str, commit: str) -> bool:
        """Returns whether a commit belongs to the branch that ends with `tip`."""
        try:
            self._said("merge-base", "--is-ancestor", commit, tip)
        except SiteError:
            return False
        return True

    def branches_with_images(self, folder: str, but: str) -> list[str]:
        """Returns the names of the branches that have images in a folder, but for those at a commit. A
        repository that is fetched is asked for all of them without the bytes of their files; if it cannot be
        reached, none is returned."""
        with TemporaryDirectory(prefix="tileharvest-") as place, suppress(SiteError):
            whole = self
            if self._address is not None:
                # A copy asks under the same name, and within the same limits.
                whole = copy(self)
                whole.folder = Path(place)
                whole._fetch(_WITHOUT_BYTES, "+refs/heads/*:refs/heads/*")
            form = "--format=%(objectname) %(refname:short)"
            lines = whole._said("for-each-ref", form, "refs/heads", "refs/remotes").splitlines()
            return [
                name
                for tip, name in (line.split(" ") for line in lines)
                if tip != but and any(path.endswith(_IMAGES) for path in whole.files(tip, folder))
            ]
        return []

    @property
    def origin(self) -> str:
        """The address from which the repository is fetched or was cloned, or else its folder. Each
        repository has another one."""
        if self._address is not None:
            return self.name
        try:
            return _CREDENTIALS.sub("//", self._said("config", "--get", "remote.origin.url").strip())
        except SiteError:
            return str(self.folder.resolve())

    def commits(self, tip: str, folder: str) -> list[tuple[int, str]]:
        """Returns the commits of a branch that touch a folder, the oldest first: when each was committed, in
        seconds since 1970, and its id.

        First parents are followed: a merge counts as one commit with everything that it brought into the
        branch, as for a site that is published from the branch.
        """
        asked = ("rev-list", "--first-parent", "--reverse", "--timestamp", tip, "--", _in_top(folder))
        lines = (line.split(" ") for line in self._said(*asked).splitlines())
        return [(int(seconds), id_) for seconds, id_ in lines]

    def files(self, commit: str, folder: str = "") -> dict[str, str]:
        """Returns the ids of the bytes of a commit's files in a folder, by their paths in that folder."""
        said = self._said("ls-tree", "-r", "-z", "--full-tree", commit, "--", folder or ".")
        lines = (line.partition("\t") for line in said.split("\0") if line)
        found = ((name, *about.split(" ")) for about, _, name in lines)
        return {_below(name, folder): id_ for name, mode, _, id_ in found if mode in _FILE_MODES}

    def changes(self, before: str, after: str, folder: str) -> dict[str, str | None]:
        """Returns the files of a folder that differ between two commits, by their paths in that folder. Each
        has the id of its bytes, or None if it is no file any more."""
        asked = ("diff-tree", "-r", "-z", "--no-renames", before, after, "--", _in_top(folder))
        parts = self._said(*asked).split("\0")
        lines = (line.split(" ") for line in parts[:-1:2])
        ids = (id_ if mode in _FILE_MODES else None for _, mode, _, id_, _ in lines)
        return {_below(name, folder): id_ for name, id_ in zip(parts[1::2], ids, strict=True)}

    def read(self, ids: Sequence[str]) -> Iterator[bytes]:
        """Yields the bytes with these ids, in this order, after it has fetched what is not here yet. All of
        them are in memory. Raises SiteError if the repository lacks some."""
        self.fetch_lacking(ids)
        given = "".join(f"{one}\n" for one in ids).encode()
        words = [self._program, "-C", str(self.folder), "cat-file", "--batch"]
        done = subprocess.run(  # noqa: S603
            words, input=given, env=self._environment, capture_output=True, check=False
        )
        output, at = done.stdout, 0
        for wanted in ids:
            end = output.find(b"\n", at)
            parts = output[at:end].split()
            if len(parts) != 3 or parts[1] != b"blob":
                raise SiteError(
                    f"{self.name} lacks the bytes {wanted}; what was imported is kept: fetch them there, or"
                    " run `git fsck` to see what else is missing"
                )
            at = end + 1
            yield output[at : at + int(parts[2])]
            at += int(parts[2]) + 1

    def _fetch(self, options: Sequence[str], *refs: str, given: str = "") -> None:
        """Runs `git fetch` for these refs, with these options and `given` as its input.

        Git writes its progress into a pipe, every second while bytes come. When nobody reads the pipe any
        more, because this process has ended in whatever way, the next line of progress ends git and the
        programs that git has started.
        """
        # A fetch of bytes need not find out which commits both sides have.
        asked = ("-c", "fetch.negotiationAlgorithm=noop") if given else ()
        # Git reports no progress for fewer than 100 objects, unless it keeps them as a pack.
        asked = (*asked, "-c", "fetch.unpackLimit=1")
        how = (*asked, "fetch", "--progress", "--no-tags", "--no-write-fetch-head", *options)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock, TemporaryFile() as ids:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # This also adds what a kill has left out or removed.
            self._said("init", "--bare", "--quiet", ".")
            # A killed git leaves locks, which would stop every later git, and unfinished packs.
            for left in ("*.lock", "refs/**/*.lock", _UNFINISHED):
                for file in self.folder.glob(left):
                    file.unlink(missing_ok=True)
            ids.write(given.encode())
            ids.seek(0)
            trace = self.folder / "trace"
            trace.unlink(missing_ok=True)
            traced = {"GIT_TRACE_CURL": str(trace), "GIT_TRACE_CURL_NO_DATA": "1"}
            there = packed_bytes(self.folder)
            process = subprocess.Popen(  # noqa: S603
                [self._program, "-C", str(self.folder), *how, str(self._address), *refs],
                stdin=ids,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**self._environment, **traced},
                # In a group of its own, which can be ended, and without a terminal where ssh could ask.
                start_new_session=True,
            )

            def count() -> None:
                # Git removes a pack that was cut off. Its bytes were sent all the same, so the count never
                # falls.
                nonlocal there
                now = max(there, packed_bytes(self.folder))
                self._meter.received_bytes += now - there
                there = now

            def watch() -> None:
                count()
                self._check()

            try:
                said = _said_by(process, watch)
            finally:
                count()
                requests = len(_REQUEST.findall(trace.read_bytes())) if trace.exists() else 0
                trace.unlink(missing_ok=True)
                # Without HTTP, such as by ssh, nothing is traced, and a fetch counts as one request.
                self._meter.requests += requests or 1
        if process.returncode:
            raise SiteError(_last_words(said) or "git fetch has failed without a word")

    def _said(self, *arguments: str) -> str:
        """Runs git and returns its output. Raises SiteError if git fails."""
        done = subprocess.run(  # noqa: S603 - what is run is git, and what people write are arguments
            [self._program, "-C", str(self.folder), *arguments],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise SiteError(_last_words(done.stderr) or f"git {arguments[0]} has failed without a word")
        return done.stdout.decode("utf-8", "surrogateescape")


class CommitSnapshot(Snapshot):
    """The files of a commit in the map's folder. Reading fetches what is not on this computer yet."""

    def __init__(self, commit: str, ids: Mapping[str, str], repository: Repository) -> None:
        """`ids` are the ids of the files' bytes, by their paths in the map's folder."""
        super().__init__(f"commit {commit[:10]}", ids.keys())
        self._ids = ids
        self._repository = repository

    def validator(self, path: str) -> Validator:
        return Validator(f'"git:{self._ids[path]}"')

    def fetch(self, paths: Iterable[str]) -> None:
        """Fetches the bytes of these files in one pack, unless they are here already. Raises SiteError."""
        self._repository.fetch_lacking(self._ids[path] for path in paths)

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        return self._repository.read([self._ids[path] for path in paths])


def no_map(repository: Repository, commit: str, folder: str, why: SiteError | None) -> SiteError:
    """Returns the error for a commit without a map in a folder. `why` is the error of its last state."""
    place = f"{repository.name}{f', folder {folder}' if folder else ''}"
    is_unknown = why is None or isinstance(why, UnrecognisedError)
    maps = maps_within(repository.files(commit)) if is_unknown else []
    if others := [one for one in maps if one != (folder or ".")]:
        hint = f"name its folder, maybe {', '.join(others[:_SHOWN])}"
    else:
        hint = NO_SIGN if why is None else str(why)
        if branches := repository.branches_with_images(folder, commit):
            hint += f"; name a branch that has images there, maybe {', '.join(branches[:_SHOWN])}"
    return SiteError(f"no map was found in {place}; nothing was changed: {hint}")


def program() -> str:
    """Returns the path of the git program. Raises TileHarvestError if there is none."""
    found = shutil.which("git")
    if found is None:
        raise TileHarvestError(
            "the git program is not installed, and nothing was changed: install it (on Debian:"
            " apt-get install git) and run again"
        )
    return found


def inside(path: str) -> str:
    """Returns a folder of a repository as git names it. Empty for the top."""
    return posixpath.normpath(f"/{path}").strip("/")


def _in_top(folder: str) -> str:
    """Returns a folder, counted from the top of the repository, as git takes it."""
    return f":(top,literal){folder}"


def _below(path: str, folder: str) -> str:
    return path.removeprefix(f"{folder}/") if folder else path


def packed_bytes(folder: Path) -> int:
    """Returns the bytes of all packs in a git folder, including one that is still being fetched."""
    sizes = {}
    for packs in ("objects/pack/*.pack", _UNFINISHED):
        for pack in folder.glob(packs):
            # Git renames a pack that is complete. For a moment it has both names, so it is counted by its
            # inode.
            with suppress(FileNotFoundError):
                found = pack.stat()
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())


def _said_by(process: subprocess.Popen[bytes], watch: Callable[[], None]) -> bytes:
    """Returns the last words of a git that fetches, when it has ended. Calls `watch` again and again
    meanwhile. Ends git and raises SiteError after SILENCE seconds without a word."""
    assert process.stderr is not None
    # `select` takes no file descriptor above 1,023, and a process with many maps has some.
    poll, said, end = select.poll(), b"", time.monotonic() + SILENCE
    poll.register(process.stderr, select.POLLIN)
    try:
        while True:
            watch()
            if poll.poll(_MOMENT):
                if not (read := os.read(process.stderr.fileno(), _MOST_WORDS)):
                    return said
                said, end = (said + read)[-_MOST_WORDS:], time.monotonic() + SILENCE
            elif time.monotonic() >= end:
                raise SiteError(f"git has not said a word for {SILENCE:g} s")
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        raise
    finally:
        process.stderr.close()
        process.wait()


def _last_words(errors: bytes) -> str:
    """Returns the line in which git says why it has failed."""
    lines = [line.strip() for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    if _UNREAD in lines[1:]:
        # The line before is that of ssh, which says why.
        return lines[lines.index(_UNREAD) - 1]
    fatal = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    return (fatal or lines or [""])[-1].removeprefix("fatal: ").removeprefix("error: ")
