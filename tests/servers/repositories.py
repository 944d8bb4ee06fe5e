"""Git repositories of published maps: each version is a commit of its day."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path

_CONFIGURATION = """
[uploadpack]
    allowFilter = true
    allowAnySHA1InWant = true
[core]
    compression = 0
[pack]
    depth = 0
    window = 0
"""
"""What a host allows; and images are neither compressed once more nor compared with each other, which takes
most of git's time."""
_ENVIRONMENT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def git(folder: Path, *arguments: str, given: bytes | None = None) -> str:
    """Runs git in a folder, with nobody's own configuration. Returns what it writes."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=given,
        env=os.environ | _ENVIRONMENT,
        check=True,
        capture_output=True,
    )
    return done.stdout.decode()


def moment_of(day: str, hour: int = 12) -> datetime:
    """Returns that hour of a day, in UTC."""
    return datetime.combine(date.fromisoformat(day), time(hour), UTC)


@dataclass
class FastImport:
    """Writes a bare repository as fast as git takes it: `git fast-import`."""

    folder: Path
    branch: str = "main"
    _stream: list[bytes] = field(default_factory=list)
    _files: dict[str, bytes] = field(default_factory=dict)

    def commit(self, moment: datetime, files: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        """Adds a commit in which these files have these bytes, or are no more. If it is `whole`, there are no
        others."""
        lines = [f"commit refs/heads/{self.branch}", f"committer a <a@b> {int(moment.timestamp())} +0000"]
        self._stream.append("\n".join([*lines, "data 1", "x", ""]).encode())
        if whole:
            files = {**{path: None for path in self._files if path not in files}, **files}
        for path, body in files.items():
            if body is None:
                self._files.pop(path, None)
                self._stream.append(f"D {path}\n".encode())
            elif self._files.get(path) != body:
                self._files[path] = body
                self._stream.append(f"M 100644 inline {path}\ndata {len(body)}\n".encode() + body + b"\n")

    def written(self) -> Path:
        """Writes what was added since the last call. Returns the repository's folder."""
        if not (self.folder / "HEAD").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            git(self.folder, "init", "--quiet", "--bare", f"--initial-branch={self.branch}", ".")
            with (self.folder / "config").open("a", encoding="utf-8") as config:
                config.write(_CONFIGURATION)
        git(self.folder, "fast-import", "--quiet", "--force", given=b"".join(self._stream))
        # The next part goes on from the branch, and does not begin it anew.
        self._stream = [f"reset refs/heads/{self.branch}\nfrom refs/heads/{self.branch}^0\n\n".encode()]
        return self.folder


def files_of(shared_maps: Path, name: str, version: int) -> dict[str, bytes]:
    """Returns the files of a version of a shared map, by path. The first version is 1."""
    versions = json.loads((shared_maps / name / "versions.json").read_text(encoding="utf-8"))["versions"]
    blobs = shared_maps / name / "blobs"
    return {path: (blobs / sha1).read_bytes() for path, (sha1, _) in versions[version - 1]["files"].items()}


def map_repository(
    shared_maps: Path,
    name: str,
    days: Sequence[tuple[int, str]],
    folder: Path,
    place: str = "",
) -> FastImport:
    """Returns a repository of the map's versions on these days, each a commit, below the folder `place`."""
    prefix = f"{place}/" if place else ""
    made = FastImport(folder)
    for version, day in days:
        files = files_of(shared_maps, name, version)
        made.commit(moment_of(day), {f"{prefix}{path}": body for path, body in files.items()}, whole=True)
    made.written()
    return made
