#!/usr/bin/env python3
"""Prepares the Pythons that the program supports for its tests, or looks whether it can be installed there.

For each version that pyproject.toml names, except the one that runs this:

- If this computer has it, the program's dependencies are installed into `build/pythons/VERSION`, where
  tests/package finds them. Nothing is done where that was done before for the same requirements.
- If not, the package index is asked whether every dependency has a wheel for it, those of dependencies
  included. The exit status is 1 if one has none.

Without a network nothing is done, and the exit status is 0.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = ROOT / "requirements.txt"
CONSTRAINTS: Final = ROOT / "container" / "constraints.txt"
PYTHONS: Final = ROOT / "build" / "pythons"
NEED_NO_WHEEL: Final = {
    "backports.zstd": "part of Python from 3.14 on",
    "pybloom_live": "comes as its source, which is all Python",
}
_PIP: Final = ("-m", "pip", "--disable-pip-version-check", "-qq")


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    versions.remove(f"{sys.version_info.major}.{sys.version_info.minor}")
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    missing = False
    for version in versions:
        folder, python = PYTHONS / version, find(version)
        stamp = folder / "requirements.sha256"
        is_there = python is None or (folder / "bin" / "python").exists()
        if is_there and stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
            continue
        if not _answers():
            _say(f"Python {version}: the package index does not answer, so nothing was tried")
            continue
        shutil.rmtree(folder, ignore_errors=True)
        if python is not None:
            _say(f"Python {version}: the dependencies are installed for the tests")
            prepare(python, folder)
        elif said := wheels_missing(version):
            _say(f"Python {version} is not on this computer, and a dependency has no wheel for it:\n{said}")
            missing = True
            continue
        else:
            _say(f"Python {version} is not on this computer; every dependency has a wheel for it")
            folder.mkdir(parents=True)
        # Last: what was broken off is done again.
        stamp.write_text(wanted, encoding="ascii")
    return int(missing)


def find(version: str) -> Path | None:
    """Returns this computer's Python of that version, such as 3.13, or None if it has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    for python in [*([Path(found)] if found else []), *sorted(pyenv.glob(f"{version}.*/bin/python"))]:
        # A shim of pyenv's may be on the path without a Python behind it; Debian has Pythons without venv.
        if _run(python, "-c", "import ensurepip").returncode == 0:
            return python
    return None


def prepare(python: Path, folder: Path) -> None:
    """Makes an environment that has the program's dependencies. Raises CalledProcessError."""
    _run(python, "-m", "venv", folder).check_returncode()
    chosen = ("--no-compile", "--constraint", CONSTRAINTS, "--requirement", REQUIREMENTS)
    done = _run(folder / "bin" / "python", *_PIP, "install", *chosen)
    sys.stderr.write(done.stderr)
    done.check_returncode()


def wheels_missing(version: str) -> str:
    """Returns what pip says of pinned packages without a wheel for that Python; nothing if all have one."""
    pins = [line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if "==" in line]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pins.txt")
        wanted = [pin for pin in pins if pin.partition("==")[0] not in NEED_NO_WHEEL]
        file.write_text("\n".join(wanted), encoding="utf-8")
        chosen = ("--python-version", version, "--only-binary", ":all:", "--no-deps", "--target", folder)
        done = _run(sys.executable, *_PIP, "install", "--dry-run", *chosen, "--requirement", file)
    return done.stderr if done.returncode else ""


def _answers() -> bool:
    """Tells whether the package index answers."""
    patience = ("--retries", "0", "--timeout", "10")
    with tempfile.TemporaryDirectory() as folder:
        command = (*patience, "download", "--no-deps", "--no-cache-dir", "--dest", folder, "six")
        return _run(sys.executable, *_PIP, *command).returncode == 0


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
