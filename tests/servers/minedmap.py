"""The guide's example of a renderer: its package as pip installs it, and sites for it.

squaremap's tiles have 512 pixels and 512 blocks, counted from the world's origin, and so have MinedMap's. A
published version of a map of squaremap is laid out here as MinedMap would have written it.
"""

import json
import re
import shutil
import tomllib
from importlib import invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from tests.servers.published import published
from tileharvest.renderers.port import Renderer

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "minedmap"
DEEPEST: Final = 3
"""squaremap's number for the deepest zoom of the map, which is MinedMap's 0."""
_TILE: Final = re.compile(r"tiles/minecraft_overworld/([0-3])/(-?\d+)_(-?\d+)\.png")


def example() -> Renderer:
    """Returns the example's renderer, without installing it."""
    spec = spec_from_file_location("minedmap", EXAMPLE / "minedmap.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Renderer = module.MinedMap()
    return made


def install(folder: Path, name: str = "minedmap", value: str | None = None) -> Path:
    """Puts into a folder what pip puts beside Scrapy: the module, and what its package says of itself.

    `name` and `value` are another entry point than that of the example. Returns the folder.
    """
    about: dict[str, Any] = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((group, entries),) = about["entry-points"].items()
    info = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir(parents=True)
    lines = ("Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}", "")
    (info / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    entry = f"{name} = {value or entries['minedmap']}"
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n", encoding="utf-8")
    shutil.copyfile(EXAMPLE / "minedmap.py", folder / "minedmap.py")
    invalidate_caches()
    return folder


def published_as_minedmap(shared_maps: Path, name: str, version: int, folder: Path) -> Path:
    """Makes `folder` hold a version of a map of squaremap as MinedMap would have written it.

    Files keep their times. Returns the folder.
    """
    drawn = published(shared_maps, name, version, folder.with_name(f"{folder.name}-{name}"))
    shutil.rmtree(folder / "data", ignore_errors=True)
    mipmaps: list[dict[int, list[int]]] = [{} for _ in range(DEEPEST + 1)]
    for file in sorted(drawn.rglob("*.png")):
        if place := place_of(file.relative_to(drawn).as_posix()):
            level, x, z = place
            mipmaps[level].setdefault(z, []).append(x)
            own = folder / "data" / "map" / str(level) / f"r.{x}.{z}.png"
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, own)
    info = {"mipmaps": [{"regions": regions} for regions in mipmaps], "spawn": {"x": -64, "z": 96}}
    (folder / "data" / "info.json").write_text(json.dumps(info), encoding="utf-8")
    return folder


def place_of(path: str) -> tuple[int, int, int] | None:
    """Returns MinedMap's level, x and z of a file of the map of squaremap; None for what is not a tile."""
    found = _TILE.fullmatch(path)
    return None if found is None else (DEEPEST - int(found[1]), int(found[2]), int(found[3]))
