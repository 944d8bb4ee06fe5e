#!/usr/bin/env python3
"""Prepares the other Pythons of this computer for the tests of the program's package.

For each version that pyproject.toml names, except the one that runs this, the program's dependencies are
installed into `build/pythons/VERSION`, where tests/package finds them. A version that this computer does not
have is left out. Nothing is done where that was done before for the same requirements.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = ROOT / "requirements.txt"
CONSTRAINTS: Final = ROOT / "container" / "constraints.txt"
PYTHONS: Final = ROOT / "build" / "pythons"


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r":: (3\.\d+)", "\n".join(project["classifiers"]))
    versions.remove(f"{sys.version_info.major}.{sys.version_info.minor}")
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    for version in versions:
        folder, python = PYTHONS / version, find(version)
        stamp = folder / "requirements.sha256"
        is_done = stamp.is_file() and stamp.read_text(encoding="ascii") == wanted
        if python is None or is_done:
            continue
        sys.stdout.write(f"Python {version}: the dependencies are installed for the tests\n")
        shutil.rmtree(folder, ignore_errors=True)
        _run(python, "-m", "venv", folder).check_returncode()
        pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-qq", "install")
        done = _run(*pip, "--no-compile", "--constraint", CONSTRAINTS, "--requirement", REQUIREMENTS)
        if done.returncode:
            # Without a network the tests go on without this Python.
            sys.stderr.write(done.stderr)
            shutil.rmtree(folder)
            continue
        # Last: what was broken off is done again.
        stamp.write_text(wanted, encoding="ascii")
    return 0


def find(version: str) -> Path | None:
    """Returns this computer's Python of that version, such as 3.13, or None if it has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    for python in [*([Path(found)] if found else []), *sorted(pyenv.glob(f"{version}.*/bin/python"))]:
        # A shim of pyenv's may be on the path without a Python behind it; Debian has Pythons without venv.
        if _run(python, "-c", "import ensurepip").returncode == 0:
            return python
    return None


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
