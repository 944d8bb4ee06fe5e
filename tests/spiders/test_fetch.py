"""Probes of a site of which is known what it had: what is asked, and what is taken for missing as before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from tileharvest.errors import SiteError
from tileharvest.history.site_files import MISSING, SiteFile
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.site import Fetched, Site
from tileharvest.spiders.fetch import probe_as_before
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from tileharvest.renderers.site import Fetch

PAGE: Final = "https://map.example.net/"
NEW, OLD = "new.js", "old.html"
FIRST: Final = SiteFile(Validator('"1"'), b"1")


@dataclass
class Served:
    """A site of two programs: a map of the newer one has `new.js`, one of the older has `old.html`."""

    files: dict[str, SiteFile]
    asked: list[str] = field(default_factory=list)
    read: dict[str, SiteFile] = field(default_factory=dict)

    async def fetch(self, method: str, url: str) -> Fetched:
        name = url.removeprefix(PAGE)
        self.asked.append(name)
        file = self.files.get(name, MISSING)
        self.read[url] = file
        return Fetched(404) if file is MISSING else Fetched(200, file.body, url)

    def probed(self, known: dict[str, SiteFile]) -> str:
        """Which program it is of, given the files that were known by name."""
        by_url = {f"{PAGE}{name}": file for name, file in known.items()}
        description = MapDescription(name="small", url=PAGE)
        return asyncio.run(probe_as_before(probe, description, self.fetch, by_url, self.read)).renderer


async def probe(description: MapDescription, fetch: Fetch) -> Site:
    for name in (NEW, OLD):
        answer = await fetch("GET", f"{description.page}{name}")
        if answer.status == 200:
            return Site(name, ())
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


def test_where_a_file_has_vanished_the_missing_one_is_looked_for() -> None:
    served = Served({NEW: FIRST})
    assert served.probed({NEW: MISSING, OLD: FIRST}) == NEW
    assert served.asked == [OLD, NEW]


def test_a_site_without_any_file_is_looked_through() -> None:
    served = Served({})
    with pytest.raises(SiteError, match="there is no map"):
        served.probed({NEW: MISSING, OLD: MISSING})
    assert served.asked == [NEW, OLD]
