"""Layers whose tiles a site's configuration places on another host are asked within that host's limits."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, LAYER, Stage, visit
from tests.servers.misbehaving import Misbehaving, misbehaving
from tests.servers.rules import Slow, tiles_only

FAR: Final = "far"


@contextmanager
def with_layers(stage: Stage, *layers: str) -> Iterator[Misbehaving]:
    """Another host, on which the site's configuration places the layer FAR, and which allows one request at a
    time. The map may have four on the way."""
    shutil.copytree(stage.files.folder / LAYER, stage.files.folder / FAR)
    with misbehaving(stage.files.folder) as other:
        tilesets = [
            {
                "path": name,
                "zoomLevels": 2,
                "imgextension": "png",
                "base": f"http://localhost:{other.port}/" if name == FAR else "",
            }
            for name in layers
        ]
        said = {"CONST": {"tileSize": 48}, "tilesets": tilesets}
        configuration = f"var overviewerConfig = {json.dumps(said)};\n"
        (stage.files.folder / "overviewerConfig.js").write_text(configuration, encoding="utf-8")
        with stage.project.maps_file.open("a") as file:
            file.write("[hosts.localhost]\nconcurrency = 1\n")
        yield other


@pytest.mark.parametrize("layers", [(FAR,), (LAYER, FAR)], ids=["all tiles", "some tiles"])
def test_tiles_of_a_map_that_lie_on_another_host_keep_its_limits(
    stage: Stage, layers: tuple[str, ...]
) -> None:
    slow = Slow(0.05)
    with with_layers(stage, *layers) as other:
        other.rule_for_all = tiles_only(slow)
        assert visit(stage.project, FIRST_DAY).counts == {"add": 20 * len(layers)}
        assert [request.path for request in other.received].count("/robots.txt") == 1
        assert len(other.received) == 21
    assert slow.most == 1
