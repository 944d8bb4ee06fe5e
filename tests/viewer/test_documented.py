"""docs/api.md shows answers as they are: its examples have the keys that the answers have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.viewer.asking import Client, of_area, serving
from tests.viewer.building import DAY_LAYER, FIRST, MAP, SECOND, THIRD, World, picture, square
from tileharvest.maps.named_areas import NamedArea, add_area
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.viewer.application import Application

DOCUMENT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
API = f"/api/v1/maps/{MAP}"
LAYER = {"layer": DAY_LAYER}
PERIOD = {"after": FIRST, "until": SECOND}
AREA = of_area(TileRange(0, 1, 3, 1, 3), **LAYER)
QUESTIONS: list[tuple[str, dict[str, Any] | None]] = [
    ("/api/v1/maps", None),
    (API, None),
    (f"{API}/view", {**AREA, "day": SECOND}),
    (f"{API}/changes", AREA),
    (f"{API}/heat", {**AREA, **PERIOD}),
    (f"{API}/places", {**LAYER, **PERIOD}),
    (f"{API}/events", {**LAYER, "from": FIRST, "to": SECOND}),
    (f"{API}/tiles/0_1_1", LAYER),
    (f"{API}/areas", None),
    (f"{API}/areas/base", None),
    (f"{API}/harvests", None),
]
"""In the document's order."""
BY_NAME = {"zooms", "tiles", "composed", "depth", "counts"}
"""Objects whose keys are names and days; so is `days` of changes."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    world = World(tmp_path_factory.mktemp("world"))
    world.describe()
    world.harvest(FIRST, dict.fromkeys(square(0, 2), picture()))
    world.harvest(SECOND, {Tile(0, 1, 1): None})
    world.harvest(THIRD, {Tile(0, 1, 1): picture()}, finished=False)
    base = NamedArea(name="base", layer=DAY_LAYER, corners=((0, 0), (15, 15)))
    add_area(world.data / "areas.toml", MAP, base)
    with serving(world) as running:
        yield running


def examples() -> list[Any]:
    """The indented blocks that are JSON."""
    blocks = re.findall(r"(?:^    .*\n)+", DOCUMENT, re.MULTILINE)
    # Of the story of pixels each line is a value.
    return [json.loads(one) for one in blocks if one.lstrip().startswith("{") and "\n    {" not in one]


def shape(value: Any, name: str = "") -> Any:
    """The keys of a value and of what is in it; of a list those of its first item."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    if not isinstance(value, dict):
        return None
    if name in BY_NAME or name == "days":
        return {}
    return {key: shape(item, key) for key, item in value.items()}


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_an_example_has_the_keys_of_the_answer(client: Client, number: int) -> None:
    assert len(examples()) == len(QUESTIONS)
    path, query = QUESTIONS[number]
    assert shape(client.get(path, query).json) == shape(examples()[number])


def test_every_address_is_documented() -> None:
    any_: Any = None
    application = Application(any_, {}, any_, ())
    paths = [route.path.removeprefix("/") for route in application.routes()]
    assert len(paths) > 20
    named = [path.replace("{picture}", "{day}").replace("{name:.+}", "") for path in paths if path]
    shared = {"s/{map}/{days}/{place}.jpg", "s/{names:.*}", "page/"}
    assert [path for path in named if path not in shared and f"`GET {path}" not in DOCUMENT] == []
