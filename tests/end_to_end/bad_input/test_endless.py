"""A layer that answers 200 to everything: the harvest stops, and says what to write."""

import json

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    SECOND_DAY,
    Stage,
    configuration,
    drawn,
    visit,
)
from tests.servers.misbehaving import Answer, Exchange

MOST = 40
ENDLESS = {"path": "endless", "zoomLevels": 12, "imgextension": "png"}


async def anything(exchange: Exchange) -> Answer | None:
    """Answers each address below `/endless/` with an image of its own."""
    if not exchange.path.startswith("/endless/"):
        return None
    return Answer(200, {"ETag": f'"{exchange.path}"'}, drawn(exchange.path))


def without_an_end(stage: Stage, depth: int = 12) -> None:
    tileset = json.dumps(ENDLESS | {"zoomLevels": depth})
    text = configuration().replace('"tilesets": [', f'"tilesets": [{tileset}, ')
    (stage.files.folder / "overviewerConfig.js").write_text(text, encoding="utf-8")
    stage.site.rule_for_all = anything
    limit(stage, MOST)


def limit(stage: Stage, tiles: int) -> None:
    stage.project.maps_file.unlink()
    # One request at a time: with many, all tiles of a small layer would be asked before the limit is passed.
    stage.project.add_map("small", f"{stage.site.url}/", max_tiles=tiles, concurrency=1)


def tiles_of(stage: Stage, layer: str) -> int:
    query = "SELECT count(*) FROM versions JOIN layers ON layers.id = versions.layer WHERE name = ?"
    ((count,),) = stage.project.query(query, layer)
    return int(count)


def test_a_layer_without_an_end_stops_the_harvest_and_no_tile_is_gone(stage: Stage) -> None:
    without_an_end(stage)
    first = visit(stage.project, FIRST_DAY)
    said = f"layer endless of map 'small' has more than {MOST} tiles, so it may have no end"
    assert len(first.said.splitlines()) == 1
    assert said in first.said
    assert (first.status, first.reports[0]["finished"]) == (4, False)
    # Blocks on the way are kept, of 64 tiles each. A whole layer of this depth has 22 million.
    assert MOST < tiles_of(stage, "endless") < MOST + 64 * 16
    asked = len(stage.site.received)

    assert f"max_tiles = {2 * MOST} " in first.said
    again = visit(stage.project, FIRST_DAY)
    assert (again.status, again.said.count(said)) == (4, 1)
    # The second run asks for robots.txt and the configuration only.
    assert len(stage.site.received) <= asked + 2

    # The site has no such layer any more. No tile of it is gone, as no answer has said so.
    stage.site.rule_for_all = None
    (stage.files.folder / "overviewerConfig.js").write_text(configuration(), encoding="utf-8")
    healthy = visit(stage.project, SECOND_DAY)
    assert healthy.status == 0
    assert healthy.counts.keys() <= {"ign", "add"}
    assert tiles_of(stage, LAYER) == len(PATHS)
    assert stage.project.query("SELECT count(*) FROM versions WHERE sha1 IS NULL") == [(0,)]


def test_a_known_layer_that_has_no_end_any_more_has_not_moved(stage: Stage) -> None:
    visit(stage.project, FIRST_DAY)
    text = configuration().replace('"zoomLevels": 2', '"zoomLevels": 12')
    assert text != configuration()
    (stage.files.folder / "overviewerConfig.js").write_text(text, encoding="utf-8")

    async def everything(exchange: Exchange) -> Answer | None:
        if exchange.path.endswith(".js") or exchange.path == "/robots.txt":
            return None
        return Answer(200, {"ETag": f'"{exchange.path}"'}, drawn(exchange.path))

    stage.site.rule_for_all = everything
    limit(stage, MOST)
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 4
    assert f"has more than {MOST} tiles, so it may have no end" in done.said
    assert "moved" not in done.said
