from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.package.installed import OWN, SUPPORTED, Installed, build, install

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def pythons(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installed | None]:
    """Installs the wheel for a version of Python, once. None: this computer does not have that Python."""
    return cache(lambda version: install(wheel, version, tmp_path_factory.mktemp("python") / version))


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
