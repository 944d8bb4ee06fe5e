"""The shared maps as repositories have them, and what harvests over HTTP have recorded of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.end_to_end.numbered_maps import (
    DUCKMAP,
    DUCKMAP_ANEW,
    HELMETGREEN,
    LABYRINTH,
    MROZBARRY,
    SBATSERVER,
)
from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import ANTWORLD_MAP, MAPCRAFTERS, days, harvested_versions, made_once
from tests.servers.nginx import nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from _pytest.mark import ParameterSet

    from tests.end_to_end.project import RecordedVersion

URL: Final = "https://map.example.net/world/"
"""Nobody is there: where git is asked, the site is asked nothing."""


class Drawn(NamedTuple):
    """A shared map, and which of its versions follow each other."""

    name: str
    renderer: str
    versions: range | None = None
    """None: all."""

    def __str__(self) -> str:
        return f"{self.name} {self.versions or ''}".strip()


MAPS: Final = [
    *(Drawn(one.name, one.renderer) for one in (ANTWORLD_MAP, *MAPCRAFTERS)),
    *(Drawn(one.name, one.renderer, one.versions) for one in (DUCKMAP, DUCKMAP_ANEW, SBATSERVER)),
    Drawn("alexjj", "overviewer"),
    Drawn("labyrinthmc", "bluemap"),
    Drawn("helmetgreen", "unmined"),
    Drawn("mrozbarry", "dynmap"),
]
_HARVESTED: Final = (
    ANTWORLD_MAP,
    *MAPCRAFTERS,
    DUCKMAP,
    DUCKMAP_ANEW,
    SBATSERVER,
    LABYRINTH,
    HELMETGREEN,
    MROZBARRY,
)
_KNOWN: Final = {(one.name, one.versions): one for one in _HARVESTED}


_FEW: Final = {"antworld", "jgore43", "alexjj", "duckmap"}
"""They show all that differs where git is asked: squares, regions, one layer and several, small maps. The
others differ in what their renderers publish, which has tests of its own."""


def as_parameters(maps: Iterable[Drawn]) -> list[ParameterSet]:
    """The maps, of which most only repeat what the others show."""
    return [
        pytest.param(one, marks=[] if one.name in _FEW else pytest.mark.repetition, id=str(one))
        for one in maps
    ]


def rows(versions: set[RecordedVersion]) -> set[tuple[Any, ...]]:
    """The versions without what only a server says: ETags and times."""
    return {version[:8] for version in versions}


def dated(shared_maps: Path, drawn: Drawn) -> list[tuple[int, str]]:
    """Its versions, each with the day on which it is harvested."""
    known = days(shared_maps, drawn.name)
    return [(number, known[number - 1]) for number in drawn.versions or range(1, len(known) + 1)]


def harvested_rows(shared_maps: Path, below: Path, drawn: Drawn) -> set[tuple[Any, ...]]:
    """What harvests of its versions have recorded, in turn and over HTTP."""
    known = _KNOWN.get((drawn.name, drawn.versions))
    if known is not None:
        return rows(harvested_versions(shared_maps, below, known)[-1].versions)

    def harvest(folder: Path) -> set[tuple[Any, ...]]:
        project, site = Project(folder), folder / "site"
        published(shared_maps, drawn.name, 1, site)
        with nginx(site) as server:
            project.add_map(drawn.name, server.url, walk="full", robots=False)
            for version, day in dated(shared_maps, drawn):
                published(shared_maps, drawn.name, version, site)
                project.crawl(drawn.name, day, spider=drawn.renderer)
        return rows(project.versions())

    return made_once(below / f"imported-{drawn.name}", harvest)
