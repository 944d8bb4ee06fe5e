"""Renderers of other packages, as pip installs them."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.renderers.sites import PAGE, PAGES
from tests.renderers.unmined_exports import bitmap, properties
from tests.servers.minedmap import EXAMPLE, install
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS, installed, probe
from tileharvest.renderers.site import Fetched
from tileharvest.renderers.unmined import PROPERTIES_FILE, REGIONS_FILE

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
        ("minedmap", "minedmap:Info", "not a class that inherits tileharvest.renderers.port.Renderer"),
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


def found_at(url: str, files: dict[str, str]) -> str:
    """The renderer of a site that sends its page for every address that it does not know."""

    async def fetch(method: str, asked: str) -> Fetched:
        return Fetched(200, files.get(asked, files["page"]).encode(), asked)

    return asyncio.run(probe(MapDescription(name="m", url=url), fetch)).renderer


def test_a_page_in_place_of_a_configuration_is_not_taken_for_one(tmp_path: Path) -> None:
    """Each renderer looks for its own files, and finds pages where another renderer's map is."""
    squaremap = {
        "page": '<!doctype html><meta property="og:title" content="squaremap" />',
        f"{PAGE}tiles/settings.json": '{"worlds": [{"name": "w"}]}',
        f"{PAGE}tiles/w/settings.json": '{"zoom": {"max": 3}}',
    }
    unmined = {
        "page": PAGES["unmined"],
        f"{PAGE}{PROPERTIES_FILE}": properties(-2, 0),
        f"{PAGE}{REGIONS_FILE}": bitmap([(0, 0)]),
    }
    assert found_at(f"{PAGE}index.php", squaremap) == "squaremap"
    assert found_at(PAGE, unmined) == "unmined"
