"""Where in a tree of files a map lies, whatever has drawn it."""

from __future__ import annotations

import asyncio
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from tests.servers.minedmap import example, published_as_minedmap
from tests.servers.published import published
from tileharvest.importers.folder_import import FolderSnapshot
from tileharvest.importers.snapshot import SnapshotSite, is_configuration, maps_within
from tileharvest.maps.description import MapDescription
from tileharvest.renderers.registry import RENDERERS

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://map.example.net/world/"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("antworld", 4),
        ("jgore43", 1),
        ("duckmap", 6),
        ("sbatserver", 1),
        ("labyrinthmc", 1),
        ("helmetgreen", 1),
    ],
)
def test_a_published_map_is_found_in_a_tree_of_other_files(
    shared_maps: Path, tmp_path: Path, name: str, version: int
) -> None:
    published(shared_maps, name, version, tmp_path / "docs" / "map")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.js").touch()
    (tmp_path / "info.json").touch()
    # A map of BlueMap has a file of the same name in each of its folders, deeper down.
    assert maps_within(FolderSnapshot(tmp_path).paths())[0] == "docs/map"


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
