"""Probes of a site of which is known what it had: what is asked, and what is taken for missing as before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.servers.published import published
from tileharvest.errors import SiteError
from tileharvest.history.site_files import MISSING, SiteFile
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import probe as probe_as_named
from tileharvest.renderers.registry import with_indexes
from tileharvest.renderers.site import Fetch, Fetched, Site
from tileharvest.spiders.fetch import probe_as_before
from tileharvest.tiles.versions import Validator

PAGE: Final = "https://map.example.net/"
NEW, OLD = "new.js", "old.html"
FIRST: Final = SiteFile(Validator('"1"'), b"1")


@dataclass
class Served:
    """A site of two programs: a map of the newer one has `new.js`, one of the older has `old.html`."""

    files: dict[str, SiteFile]
    asked: list[str] = field(default_factory=list)
    read: dict[str, SiteFile] = field(default_factory=dict)
    refused: str = ""
    moved: str = ""
    """The file that is redirected."""

    async def fetch(self, method: str, url: str) -> Fetched:
        name = url.removeprefix(PAGE)
        self.asked.append(name)
        if name == self.refused:
            return Fetched(403)
        file = self.files.get(name, MISSING)
        self.read[url] = file
        lies = f"https://elsewhere.example.net/{name}" if name == self.moved else url
        return Fetched(404) if file is MISSING else Fetched(200, file.body, lies)

    def probed(self, known: dict[str, SiteFile]) -> str:
        """Which program it is of, given the files that were known by name."""
        description = MapDescription(name="small", url=PAGE)
        return self.probed_by(probe, description, known).notes[0]

    def probed_by(self, probe: Any, description: MapDescription, known: dict[str, SiteFile]) -> Site:
        """What the site says; with the change indexes that it has."""
        by_url = {f"{PAGE}{name}": file for name, file in known.items()}
        return asyncio.run(probe_as_before(probe, with_indexes, by_url, self.read, description, self.fetch))


async def probe(description: MapDescription, fetch: Fetch) -> Site:
    """Notes which of the programs it is of."""
    for name in (NEW, OLD):
        answer = await fetch("GET", f"{description.page}{name}")
        if answer.status == 200:
            return Site("xyz", (), notes=(name,))
    raise SiteError("there is no map")


def test_what_was_missing_is_not_asked_while_all_else_is_as_it_was() -> None:
    served = Served({OLD: FIRST})
    assert served.probed({NEW: MISSING, OLD: FIRST}) == OLD
    assert served.asked == [OLD]
    # It is known for the next time.
    assert served.read[f"{PAGE}{NEW}"] == MISSING


@pytest.mark.parametrize(
    "now",
    [SiteFile(Validator('"2"'), b"2"), SiteFile(Validator(), b"1")],
    ids=["another state", "without validators"],
)
def test_where_a_file_has_changed_the_missing_one_is_looked_for(now: SiteFile) -> None:
    served = Served({OLD: now, NEW: FIRST})
    assert served.probed({NEW: MISSING, OLD: FIRST}) == NEW
    assert served.asked == [OLD, NEW]


def test_a_site_without_any_file_is_looked_through() -> None:
    served = Served({})
    with pytest.raises(SiteError, match="there is no map"):
        served.probed({NEW: MISSING, OLD: MISSING})
    assert served.asked == [NEW, OLD]


WORLD: Final = MapDescription(name="small", url=PAGE, renderer="bluemap", layers=("world",))
QUARTERS: Final = ((0, 0), (-1, -1), (-1, 0), (0, -1))
INDEX: Final = [f"maps/world/rstate/regions/x{x}/z{z}.regions.dat" for x, z in QUARTERS]
SETTINGS: Final = ["settings.json", "maps/world/settings.json", "maps/world/live/markers.json"]


@pytest.fixture
def bluemap(shared_maps: Path, tmp_path: Path) -> Served:
    """A site whose index has files of its own."""
    folder = published(shared_maps, "labyrinthmc", 5, tmp_path)
    files = [*folder.rglob("*.json"), *folder.rglob("*.dat")]
    return Served(
        {file.relative_to(folder).as_posix(): SiteFile(Validator('"1"'), file.read_bytes()) for file in files}
    )


@pytest.mark.parametrize("what", ["refused", "moved"])
def test_where_an_index_is_refused_or_redirected_the_site_is_probed_anew(bluemap: Served, what: str) -> None:
    before = bluemap.probed_by(probe_as_named, WORLD, {})
    known, bluemap.read, bluemap.asked = bluemap.read, {}, []
    setattr(bluemap, what, INDEX[0])
    by_name = {url.removeprefix(PAGE): file for url, file in known.items()}
    assert bluemap.probed_by(probe_as_named, WORLD, by_name).layers == before.layers
    assert sorted(bluemap.asked) == sorted([*INDEX, *SETTINGS])


@pytest.mark.parametrize("etag", ['"1"', '"2"'])
def test_all_is_asked_once_unless_an_index_in_files_of_its_own_is_as_it_was(
    bluemap: Served, etag: str
) -> None:
    before = bluemap.probed_by(probe_as_named, WORLD, {})
    known, bluemap.read, bluemap.asked = bluemap.read, {}, []
    bluemap.files[INDEX[2]] = bluemap.files[INDEX[2]]._replace(validator=Validator(etag))
    by_name = {url.removeprefix(PAGE): file for url, file in known.items()}
    assert bluemap.probed_by(probe_as_named, WORLD, by_name) == before
    assert bluemap.read.keys() == known.keys()
    assert sorted(bluemap.asked) == sorted(INDEX if etag == '"1"' else [*INDEX, *SETTINGS])
