"""The files of a commit as a snapshot of a map's site, and where in a repository a map lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileharvest.errors import SiteError
from tileharvest.importers.snapshot import NO_SIGN, folders_of_map
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tileharvest.importers.repository import Repository

_SHOWN: Final = 5
"""The most folders or branches that a message names."""


class CommitSnapshot:
    """The files of a commit below the map's folder, as a `Snapshot`. Reading fetches what is not on this
    computer yet."""

    def __init__(self, commit: str, ids: Mapping[str, str], repository: Repository) -> None:
        """`ids` are the ids of the files' bytes, by their paths in the map's folder."""
        self.name = f"commit {commit[:10]}"
        self._ids = ids
        self._repository = repository

    def __contains__(self, path: str) -> bool:
        return path in self._ids

    def validator(self, path: str) -> Validator:
        return Validator(f'"git:{self._ids[path]}"')

    def paths(self) -> Iterable[str]:
        return self._ids

    def fetch(self, paths: Iterable[str]) -> None:
        """Fetches the bytes of these files in one pack, unless they are here already. Raises SiteError."""
        self._repository.fetch_lacking(self._ids[path] for path in paths)

    def read(self, paths: Sequence[str]) -> Iterator[bytes]:
        return self._repository.read([self._ids[path] for path in paths])


def inside(folder: str) -> str:
    """Returns the beginning of all paths in a folder of a repository. Empty for the top."""
    folder = folder.strip("/").removeprefix("./").removesuffix(".")
    return f"{folder}/" if folder else ""


def no_map(repository: Repository, commit: str, prefix: str, why: SiteError | None) -> SiteError:
    """Returns the error for a commit that has no map in a folder, whose paths begin with `prefix`. `why` is
    the error of its last state."""
    folder = prefix.rstrip("/")
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
