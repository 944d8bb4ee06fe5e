"""The wheel of this checkout, installed beside the dependencies of some Python."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.package.installed import OWN, ROOT, SUPPORTED, Installed


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


@pytest.fixture(scope="session")
def pythons(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed | None]:
    """Installs the wheel for a version of Python, once. None: this computer does not have that Python.

    The dependencies are not installed anew: they are those that the tests run with, or that
    `tools/pythons.py` has installed.
    """

    @cache
    def install(version: str) -> Installed | None:
        folder = tmp_path_factory.mktemp("python") / version
        dependencies = Path(sys.prefix) if version == OWN else ROOT / "build" / "pythons" / version
        base = dependencies / "bin" / "python"
        if not base.exists():
            return None
        subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
        within = Path("lib", f"python{version}", "site-packages")
        (folder / within / "dependencies.pth").write_text(f"{dependencies / within}\n", encoding="utf-8")
        python = folder / "bin" / "python"
        pip("--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        return Installed(python)

    return install


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, capture_output=True, encoding="utf-8", check=True)


@pytest.fixture(scope="session")
def installed(pythons: Callable[[str], Installed | None]) -> Installed:
    """The wheel, for the Python of the tests."""
    made = pythons(OWN)
    assert made is not None
    return made


@pytest.fixture(params=SUPPORTED)
def each_python(request: pytest.FixtureRequest, pythons: Callable[[str], Installed | None]) -> Installed:
    """The wheel, for each Python that is supported and that this computer has."""
    made = pythons(request.param)
    if made is None:
        pytest.skip(f"no Python {request.param}: `make pythons` prepares those that this computer has")
    return made
