"""Configurations that cannot be read, or that maps.toml does not fit, beside a good map in the same run."""

from tests.end_to_end.bad_input.small_site import FIRST_DAY, LAYER, Stage, configuration, visit
from tests.servers import rules

SAID = {
    "page": ": is the address right? If the map has moved, put the right url into maps.toml",
    "pointer": "overviewerConfig.js is a Git-LFS pointer, not the file itself",
    "ill": "overviewerConfig.js answers 500: nothing was changed; try again later",
    "forbidden": "overviewerConfig.js answers 403: nothing was changed; write to the owner",
    "broken": "overviewerConfig.js cannot be reached",
    "closed": "cannot be reached",
}
"""What the user is told of each map, by the map's name."""

WRONG_LAYER = '{"path": "deep", "zoomLevels": 1000000000, "imgextension": "png"}'
SAID_OF_LAYER = "layer 'deep' is not as Overviewer writes it: zoomLevels is 1000000000: expected `int` <= 32"


def test_what_cannot_be_read_is_one_line_and_the_good_map_is_harvested(stage: Stage) -> None:
    for name in SAID:
        address = "http://127.0.0.1:1/" if name == "closed" else f"{stage.site.url}/{name}/"
        stage.project.add_map(name, address)
    stage.site.rules = {
        "/page/overviewerConfig.js": rules.body(rules.ERROR_PAGE, "text/html"),
        "/pointer/overviewerConfig.js": rules.body(rules.LFS_POINTER),
        "/ill/overviewerConfig.js": rules.status(500),
        "/forbidden/overviewerConfig.js": rules.status(403),
        "/broken/overviewerConfig.js": rules.reset(),
    }
    done = visit(stage.project, FIRST_DAY, names=(*SAID, "small"))
    *bad, good = done.reports
    assert (done.status, good["exit_status"], good["counts"]) == (5, 0, {"add": 20})
    assert stage.project.query("SELECT name FROM maps") == [("small",)]
    for report in bad:
        assert SAID[report["map"]] in report["error"]
        assert (report["exit_status"], report["finished"], report["counts"]) == (5, False, {})
    *said, last = done.said.splitlines()
    errors = [
        f"ERROR: {error}" if f"map '{name}'" in error else f"ERROR: map '{name}': {error}"
        for name, error in ((report["map"], report["error"]) for report in bad)
    ]
    # The maps are harvested side by side, so the order of the lines may vary.
    assert sorted(said) == sorted(errors)
    assert last == f"exit status 5, unreachable, or moved: {', '.join(SAID)}"


def test_a_layer_that_cannot_be_is_told_and_the_others_are_added_and_harvested(stage: Stage) -> None:
    text = configuration().replace('"tilesets": [', f'"tilesets": [{WRONG_LAYER}, ')
    (stage.files.folder / "overviewerConfig.js").write_text(text, encoding="utf-8")
    done = visit(stage.project, FIRST_DAY)
    assert SAID_OF_LAYER in done.error
    assert (done.status, done.counts) == (5, {"add": 20})
    assert done.reports[0]["finished"]
    assert SAID_OF_LAYER in done.reports[0]["error"]
    added = stage.project.scrapy("add", "again", f"{stage.site.url}/", "--contact=", check=False)
    (error,) = [line for line in added.stderr.splitlines() if line.startswith("error: ")]
    assert f"{SAID_OF_LAYER}; map 'again' was added with its other layers" in error
    assert f"layer {LAYER}: depth 2" in added.stdout
    assert added.returncode == 5
