"""Where in a tree of files a map lies, whatever has drawn it."""

from __future__ import annotations

import asyncio
from shutil import copytree
from typing import TYPE_CHECKING

from tests.servers.minedmap import example, published_as_minedmap
from tileharvest.importers.snapshot import FolderSnapshot, SnapshotSite, is_configuration, maps_within
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

URL = "https://map.example.net/world/"


def test_the_map_of_a_packages_renderer_is_found_and_read(
    shared_maps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = published_as_minedmap(shared_maps, "duckmap", 6, tmp_path / "made")
    site = copytree(made, tmp_path / "tree" / "map")
    tree = FolderSnapshot(tmp_path / "tree")
    assert maps_within(tree.paths()) == []
    monkeypatch.setitem(RENDERERS, "minedmap", example())
    assert maps_within(tree.paths()) == ["map"]
    assert is_configuration("map/data/info.json")
    read = asyncio.run(SnapshotSite.read(MapDescription(name="m", url=URL), FolderSnapshot(site)))
    assert read.site.renderer == "minedmap"
    files = {path for path in FolderSnapshot(site).paths() if path.endswith(".png")}
    assert {path for path in files if read.place(path) is not None} == files
