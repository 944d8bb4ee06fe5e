"""Renderers of other packages, as pip installs them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.servers.minedmap import EXAMPLE, install
from tileharvest.renderers.registry import RENDERERS, installed

if TYPE_CHECKING:
    from pathlib import Path

ROOT = EXAMPLE.parents[1]


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which Python looks for packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "minedmap", raising=False)
    return tmp_path


def test_a_renderer_of_another_package_is_there_as_soon_as_it_is_installed(packages: Path) -> None:
    assert not list(installed(RENDERERS))
    install(packages)
    (found,) = installed(RENDERERS)
    assert (found.name, found.title) == ("minedmap", "MinedMap")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("minedmap", "minedmap:Missing", "has no attribute 'Missing'"),
        ("minedmap", "no_such_module:MinedMap", "No module named 'no_such_module'"),
        ("minedmap", "minedmap:Info", "no class that inherits tileharvest.renderers.port.Renderer"),
        ("mined", "minedmap:MinedMap", "its name is 'minedmap'; write that of the entry point"),
    ],
)
def test_what_is_no_renderer_is_told_and_left_out(
    packages: Path, caplog: pytest.LogCaptureFixture, name: str, value: str, said: str
) -> None:
    install(packages, name, value)
    assert not list(installed(RENDERERS))
    assert f"renderer '{name}' of tileharvest-minedmap cannot be used" in caplog.text
    assert said in caplog.text


def test_a_name_that_is_taken_stays_with_its_renderer(
    packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(packages)
    assert not list(installed({"minedmap"}))
    assert "there is one of this name" in caplog.text


def test_the_guide_shows_the_example_as_it_is() -> None:
    guide = (ROOT / "docs" / "renderers.md").read_text(encoding="utf-8")
    for name in ("minedmap.py", "pyproject.toml"):
        assert (EXAMPLE / name).read_text(encoding="utf-8") in guide
