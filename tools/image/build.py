"""The build of an image's files in a folder, by the Dockerfile's own commands, without a container engine.

A Debian that debootstrap makes, with its own Python, takes the place of `FROM python:X-slim-SUITE`. Mounts
are seen by the calling process only: see `tools/image/namespaces.py`.
"""

# ruff: noqa: S603, S607 -- it runs what the Dockerfile says, with Debian's programs

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Final

from tools.image.dockerfile import DockerfileError, Ignored, Instruction, Stage, instructions
from tools.image.namespaces import mounted_kernel_folders

PACKAGES: Final = "python3-venv,ca-certificates"
"""The packages that python:slim has and Debian's smallest system lacks. They bring Python."""

_MIRROR: Final = "http://deb.debian.org/debian"
_BASE: Final = re.compile(r"python:(?P<python>[\d.]+)-slim-(?P<suite>[a-z]+)")
_PASSED_ON: Final = ("PIP_INDEX_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""Variables that say how this computer reaches the package servers. Docker passes proxies on in this way."""
_CERTIFICATES: Final = "run/certificates.crt"


@dataclass(frozen=True, slots=True)
class Image:
    root: Path
    settings: Stage


@dataclass(slots=True)
class Build:
    """The build of one Dockerfile. Its stages are folders below `workplace`."""

    project: Path
    workplace: Path
    base: Path | None
    """A Debian as `make_base` makes it, which is not changed. None means that one is made."""
    arguments: dict[str, str] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    ignored: Ignored = field(init=False)

    def __post_init__(self) -> None:
        self.ignored = Ignored.parse((self.project / ".dockerignore").read_text().splitlines())

    def build(self) -> Image:
        """Builds all stages and returns the last one.

        Raises DockerfileError for what is wrong or not understood, CalledProcessError for a failed command.
        """
        stage: Stage | None = None
        for instruction in instructions((self.project / "Dockerfile").read_text()):
            began = time.monotonic()
            if instruction.name == "ARG" and stage is None:
                self.arguments |= instruction.pairs({})
            elif instruction.name == "FROM":
                stage = self._begin(instruction)
            elif stage is None:
                raise DockerfileError(f"{instruction.name} before FROM")
            else:
                self._apply(stage, instruction)
            shown = instruction.text if len(instruction.text) < 80 else f"{instruction.text[:77]}..."
            say(f"  {time.monotonic() - began:5.1f} s  {instruction.name} {shown}")
        if stage is None:
            raise DockerfileError("no FROM")
        return Image(self._root(stage), stage)

    def _begin(self, instruction: Instruction) -> Stage:
        base, _, name = Template(instruction.text).substitute(self.arguments).partition(" AS ")
        stage = Stage(name or "last", base)
        stage.environment["PATH"] = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.stages[stage.name] = stage
        if self.base is None:
            self.base = make_base(base, self.workplace / "base")
        subprocess.run(["cp", "--archive", "--reflink=auto", self.base, self._root(stage)], check=True)
        return stage

    def _apply(self, stage: Stage, instruction: Instruction) -> None:
        if instruction.name == "RUN":
            run_in(self._root(stage), stage, instruction.command())
        elif instruction.name == "COPY":
            self._copy(stage, instruction.words)
        elif instruction.name == "WORKDIR":
            stage.folder = str(Path(stage.folder) / instruction.text)
            _inside(self._root(stage), stage.folder).mkdir(parents=True, exist_ok=True)
        else:
            stage.take(instruction)

    def _root(self, stage: Stage) -> Path:
        return self.workplace / f"stage-{stage.name}"

    def _copy(self, stage: Stage, words: list[str]) -> None:
        options = [word for word in words if word.startswith("--")]
        *sources, to = [word for word in words if not word.startswith("--")]
        other = options[0].removeprefix("--from=") if options else None
        if len(options) > 1 or (options and not options[0].startswith("--from=")):
            raise DockerfileError(f"COPY {' '.join(options)}: not understood by this check")
        start = self._root(self.stages[other]) if other else self.project
        target = _inside(self._root(stage), str(Path(stage.folder) / to))
        for source in sources:
            self._copy_one(start, source.strip("/"), target, into=to.endswith("/"), checked=other is None)

    def _copy_one(self, start: Path, source: str, target: Path, *, into: bool, checked: bool) -> None:
        def is_out(path: Path) -> bool:
            return checked and path.relative_to(start).as_posix() in self.ignored

        if is_out(start / source):
            raise DockerfileError(f"COPY {source}: .dockerignore leaves it out")
        if (start / source).is_dir():
            shutil.copytree(
                start / source,
                target,
                symlinks=True,
                dirs_exist_ok=True,
                ignore=lambda folder, names: [name for name in names if is_out(Path(folder) / name)],
            )
            return
        place = target / Path(source).name if into else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(start / source, place)


def make_base(name: str, folder: Path) -> Path:
    """Makes a Debian for `python:X-slim-SUITE`. Raises DockerfileError if its Python is another than X."""
    match = _BASE.fullmatch(name)
    if match is None:
        raise DockerfileError(f"FROM {name}: this check knows python:X-slim-SUITE only")
    say(f"  debootstrap of {match['suite']} instead of {name} ...")
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", match["suite"], folder, _MIRROR],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    if not (folder / f"usr/bin/python{match['python']}").exists():
        raise DockerfileError(f"Debian {match['suite']} has no Python {match['python']}")
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    return folder


def run_in(root: Path, stage: Stage, command: list[str]) -> None:
    """Runs a command as root, with the network. Raises CalledProcessError when it fails."""
    environment = stage.environment | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if certificates := os.environ.get("PIP_CERT"):
        shutil.copy(certificates, root / _CERTIFICATES)
        environment["PIP_CERT"] = f"/{_CERTIFICATES}"
    with mounted_kernel_folders(root):
        subprocess.run(
            in_root(root, "0:0", stage.folder, environment, command), check=True, stdout=subprocess.DEVNULL
        )
    (root / _CERTIFICATES).unlink(missing_ok=True)


def in_root(root: Path, user: str, folder: str, environment: dict[str, str], command: list[str]) -> list[str]:
    """Returns a command line that runs a command with this root, user, folder and environment only.

    The user has the form `number:number`.
    """
    words = [f"{name}={value}" for name, value in environment.items()]
    number, group = user.split(":")
    return [
        *("chroot", str(root)),
        # The signal at the parent's death is set here, because a change of user forgets it.
        *("setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--pdeathsig=KILL"),
        *("/usr/bin/env", "--ignore-environment", f"--chdir={folder}", *words),
        *command,
    ]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")
