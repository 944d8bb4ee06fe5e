"""Layers whose tiles a site's configuration places on another host are asked within that host's limits."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, LAYER, Stage, visit
from tests.servers.misbehaving import Misbehaving
from tests.servers.rules import Slow, tiles_only


@pytest.mark.parametrize("layers", [("far",), (LAYER, "far")], ids=["all tiles", "some tiles"])
def test_tiles_of_a_map_that_lie_on_another_host_keep_its_limits(
    stage: Stage, misbehaving: Callable[[Path], Misbehaving], layers: tuple[str, ...]
) -> None:
    """The map may have four requests on the way, and the other host allows one."""
    site = stage.files.folder
    shutil.copytree(site / LAYER, site / "far")
    other, slow = misbehaving(site), Slow(0.05)
    other.rule_for_all = tiles_only(slow)
    bases = {LAYER: "", "far": f"http://localhost:{other.port}/"}
    tilesets = [
        {"path": name, "zoomLevels": 2, "imgextension": "png", "base": bases[name]} for name in layers
    ]
    said = json.dumps({"CONST": {"tileSize": 48}, "tilesets": tilesets})
    (site / "overviewerConfig.js").write_text(f"var overviewerConfig = {said};\n", encoding="utf-8")
    with stage.project.maps_file.open("a") as file:
        file.write("[hosts.localhost]\nconcurrency = 1\n")
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20 * len(layers)}
    assert [request.path for request in other.received].count("/robots.txt") == 1
    assert len(other.received) == 21
    assert slow.most == 1
