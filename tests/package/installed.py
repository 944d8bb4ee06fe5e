"""The wheel of this checkout, installed beside the dependencies of some Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The Python that runs the tests, and has the dependencies."""
SUPPORTED: Final = tuple(
    last for one in PROJECT["classifiers"] if (last := one.rpartition(" :: ")[2]).startswith("3.")
)
_NEEDED: Final = ("pyproject.toml", "requirements.txt", "setup.py", "tileharvest")
"""The files that a build reads."""
_PATIENCE: Final = 240.0
"""Seconds in which a program ends. It needs less than ten."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with TileHarvest as its users have it: without a checkout and without `scrapy.cfg`."""

    python: Path
    wheel: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Returns the variables of a user's shell, without those that lead to the checkout or to other
        data."""
        foreign = ("PYTHON", "SCRAPY_", "TILEHARVEST_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}

    def run(
        self, folder: Path, *words: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment in that folder. With `check`, another exit status than 0 is an
        AssertionError that shows what was written."""
        done = subprocess.run(
            [self.python.with_name(words[0]), *words[1:]],
            cwd=folder,
            env={**self.environment, **environment},
            capture_output=True,
            encoding="utf-8",
            timeout=_PATIENCE,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    @contextmanager
    def running(self, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Runs a program until the block ends, and then kills it."""
        with subprocess.Popen(
            [self.python.with_name(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def build(folder: Path) -> Path:
    """Builds the wheel from a copy of its sources, so that nothing of an earlier build gets into it."""
    source = folder / "source"
    source.mkdir()
    for name in _NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, source / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, version: str, folder: Path) -> Installed | None:
    """Installs the wheel for that Python, or returns None where this computer does not have it.

    The dependencies are not installed anew: they are those that the tests run with, or that
    `tools/pythons.py` has installed.
    """
    dependencies = Path(sys.prefix) if version == OWN else ROOT / "build" / "pythons" / version
    base = dependencies / "bin" / "python"
    if not base.exists():
        return None
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    within = Path("lib", f"python{version}", "site-packages")
    (folder / within / "dependencies.pth").write_text(f"{dependencies / within}\n", encoding="utf-8")
    python = folder / "bin" / "python"
    _pip("--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    return Installed(python, wheel)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
