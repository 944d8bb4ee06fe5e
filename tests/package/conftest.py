"""TileHarvest as its users have it: the wheel of this checkout, beside the dependencies of some Python."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The Python that runs the tests, and has the dependencies."""
SUPPORTED: Final = [
    last for one in PROJECT["classifiers"] if (last := one.rpartition(" :: ")[2]).startswith("3.")
]


class Installed(NamedTuple):
    """The wheel, installed for a Python."""

    python: Path

    @property
    def environment(self) -> dict[str, str]:
        """A user's shell, without the variables that lead to the checkout or to other data."""
        foreign = ("PYTHON", "SCRAPY_", "TILEHARVEST_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}

    def run(self, folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a program in that folder. With `check` it must end with 0."""
        done = subprocess.run(
            [self.python.with_name(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of its sources, so that nothing of an earlier build gets into it."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(
        ROOT / "tileharvest", source / "tileharvest", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "requirements.txt", "setup.py"):
        shutil.copyfile(ROOT / name, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("*.whl")
    return wheel


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, capture_output=True, encoding="utf-8", check=True)


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed]:
    """Installs the wheel for a version of Python, once.

    The dependencies are not installed anew: they are those that the tests run with, or that
    `make pythons` has installed.
    """

    @cache
    def install(version: str) -> Installed:
        dependencies = Path(sys.prefix) if version == OWN else ROOT / "build" / "pythons" / version
        base = dependencies / "bin" / "python"
        if not base.exists():
            pytest.skip(f"no Python {version}: `make pythons` prepares those that this computer has")
        folder = tmp_path_factory.mktemp("python") / version
        subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
        within = Path("lib", f"python{version}", "site-packages")
        (folder / within / "dependencies.pth").write_text(f"{dependencies / within}\n", encoding="utf-8")
        python = folder / "bin" / "python"
        pip("--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        return Installed(python)

    return install


@pytest.fixture
def installed(install: Callable[[str], Installed]) -> Installed:
    return install(OWN)
