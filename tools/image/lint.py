"""The lint of the image's files: hadolint, shellcheck and `docker compose config` read them."""

# ruff: noqa: S603 -- it runs what the Dockerfile says, with Debian's programs

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.image.build import say

if TYPE_CHECKING:
    from collections.abc import Sequence

_EMPTY: Final = re.compile(r"^(\w+)=$", re.MULTILINE)


def lint(project: Path) -> None:
    """Runs the three programs. Raises AssertionError with the words of the one that finds a fault."""
    example = (project / "compose.env.example").read_text()
    _expect(0, ["hadolint", "Dockerfile"], project)
    _expect(0, ["shellcheck", "container/start"], project)
    with_passwords = _EMPTY.sub(r"\1=c0ffee", example)
    said = _config(project, with_passwords, 0)
    assert "c0ffee" in said, "compose.yaml uses no password"
    secrets = _EMPTY.findall(example)
    for name in secrets:
        refusal = _config(project, with_passwords.replace(f"{name}=c0ffee", f"{name}="), 1)
        assert f"required variable {name} is missing" in refusal, refusal
    say(f"hadolint, shellcheck and docker compose have nothing to say; {len(secrets)} passwords are needed")


def _config(project: Path, variables: str, status: int) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
        file.write(variables)
        file.flush()
        return _expect(status, ["docker-compose", "--env-file", file.name, "config"], project)


def _expect(status: int, command: Sequence[str], project: Path) -> str:
    # The programs lie beside this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=project,
        env={"PATH": path, "HOME": "/nonexistent"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, f"{command[0]}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout
