"""Sites that have moved, of which a part was deleted, or whose layers have no end."""

import json
import shutil

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    configuration,
    drawn,
    found,
    publish,
    versions,
    visit,
)
from tests.servers.misbehaving import Answer, Exchange

FOURTH_DAY = "2024-05-04"


def test_nothing_of_a_map_that_has_moved_is_gone_and_it_may_come_back(stage: Stage) -> None:
    """The site has its configuration only."""
    visit(stage.project, FIRST_DAY)
    before = stage.project.versions(), stage.project.stored()
    shutil.rmtree(stage.files.folder / LAYER)
    moved = visit(stage.project, SECOND_DAY)
    assert moved.status == 5
    assert "'small'" in moved.error
    assert "moved" in moved.error
    assert "put the new url into maps.toml" in moved.error
    assert "gone" not in moved.counts
    assert (stage.project.versions(), stage.project.stored()) == before
    assert [row["reason"] for row in stage.project.harvests("small")] == ["finished", "moved"]
    publish(stage.files.folder)
    done = visit(stage.project, THIRD_DAY)
    assert (done.status, done.counts) == (0, {"ign": 20})
    assert (stage.project.versions(), stage.project.stored()) == before


def test_removed_tiles_are_gone_once_and_what_lies_below_them_is_found_all_the_same(
    stage: Stage,
) -> None:
    visit(stage.project, FIRST_DAY)
    stage.files.remove("0", "10")
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 18, "gone": 2}
    assert {path for path, row in found(stage.project).items() if row.outcome == "gone"} == {"0", "10"}
    assert visit(stage.project, THIRD_DAY).counts == {"ign": 18, "404": 2}
    stage.files.write("10", drawn("10"))
    assert visit(stage.project, FOURTH_DAY).counts == {"ign": 18, "404": 1, "add": 1}
    name = stage.files.sha1("10")
    rows = [(FIRST_DAY, name), (SECOND_DAY, None), (FOURTH_DAY, name)]
    assert [row[:2] for row in versions(stage.project, "10")] == rows


def test_a_new_map_without_a_tile_is_an_error_that_says_what_to_look_at(stage: Stage) -> None:
    shutil.rmtree(stage.files.folder / LAYER)
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 5
    assert "map 'small' has no tile at all at the addresses that were asked, such as" in done.error
    publish(stage.files.folder)
    done = visit(stage.project, FIRST_DAY)
    assert (done.counts, done.said) == ({"add": 20}, "")


MOST = 40


async def anything(exchange: Exchange) -> Answer | None:
    """Answers each address of a tile with an image of its own."""
    is_tile = exchange.path.endswith(".png")
    return Answer(200, {"ETag": f'"{exchange.path}"'}, drawn(exchange.path)) if is_tile else None


def test_layers_without_an_end_stop_the_harvest_of_a_known_map_and_no_tile_is_gone(stage: Stage) -> None:
    """One layer is new, and the other one has been harvested when it ended at a depth of 2."""
    visit(stage.project, FIRST_DAY)
    config = stage.files.folder / "overviewerConfig.js"
    deep = configuration().replace('"zoomLevels": 2', '"zoomLevels": 12')
    endless = {"path": "endless", "zoomLevels": 12, "imgextension": "png"}
    more = deep.replace('"tilesets": [', f'"tilesets": [{json.dumps(endless)}, ')
    config.write_text(more, encoding="utf-8")
    stage.site.rule_for_all = anything
    # One request at a time: with many, all tiles of a small layer would be asked before the limit is passed.
    stage.describe(max_tiles=MOST, concurrency=1)
    done = visit(stage.project, SECOND_DAY)
    assert (done.status, done.reports[0]["finished"]) == (4, False)
    (line,) = done.said.splitlines()
    assert f"of map 'small' has more than {MOST} tiles, so it may have no end" in line
    assert f"max_tiles = {2 * MOST} " in line
    # Blocks on the way are kept, of 64 tiles each. A whole layer of this depth has 22 million.
    ((tiles,),) = stage.project.query("SELECT count(*) FROM versions")
    assert MOST < tiles < MOST + 64 * 16
    asked = len(stage.site.received)
    assert visit(stage.project, SECOND_DAY).status == 4
    # The second run asks for robots.txt and the configuration only.
    assert len(stage.site.received) <= asked + 2
    # The site has no such layers any more. No tile of them is gone, as no answer has said so.
    stage.site.rule_for_all = None
    config.write_text(configuration(), encoding="utf-8")
    healthy = visit(stage.project, THIRD_DAY)
    assert healthy.status == 0
    assert stage.project.query("SELECT count(*) FROM versions WHERE sha1 IS NULL") == [(0,)]
