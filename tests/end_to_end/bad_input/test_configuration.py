"""Sites whose configuration is missing or cannot be read: one clear line per map, and exit status 5."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    Visit,
    configuration,
    publish,
    visit,
)
from tests.end_to_end.project import Project
from tests.servers import rules
from tests.servers.misbehaving import misbehaving
from tileharvest.errors import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.bad_input.small_site import Stage

SAID = {
    "page": ": is the address right? If the map has moved, put the right url into maps.toml",
    "pointer": "overviewerConfig.js is a Git-LFS pointer, not the file itself",
    "cut-off": "overviewerConfig.js is cut off or damaged",
    "empty": "overviewerConfig.js does not set overviewerConfig",
    "other": "overviewerConfig.js: layer '7' is not as Overviewer writes it: path is 7",
    "ill": "overviewerConfig.js answers 500: nothing was changed; try again later",
    "forbidden": "overviewerConfig.js answers 403: nothing was changed; write to the owner",
    "circle": "overviewerConfig.js cannot be reached",
    "broken": "overviewerConfig.js cannot be reached",
    "closed": "cannot be reached",
}
"""What the user is told of each map, by the map's name."""


class Tried(NamedTuple):
    visit: Visit
    kept: dict[str, bytes]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """A harvest of all these maps in one run."""
    folder = tmp_path_factory.mktemp("sites")
    project = Project(folder)
    with misbehaving(publish(folder / "site").folder) as site, closed_port() as port:
        for name in SAID:
            address = f"http://127.0.0.1:{port}" if name == "closed" else f"{site.url}/{name}"
            project.add_map(name, f"{address}/")
        whole = configuration().encode()
        site.rules = {
            f"/{name}/overviewerConfig.js": rule
            for name, rule in {
                "page": rules.error_page(),
                "pointer": rules.body(rules.LFS_POINTER),
                "cut-off": rules.body(whole[: len(whole) // 2]),
                "empty": rules.body(b""),
                "other": rules.body(b'var overviewerConfig = {"tilesets": [{"path": 7}]};'),
                "ill": rules.status(500),
                "forbidden": rules.status(403),
                "circle": rules.redirect(302, "/circle/overviewerConfig.js"),
                "broken": rules.reset(),
            }.items()
        }
        done = visit(project, FIRST_DAY, names=tuple(SAID))
        yield Tried(done, project.kept())


@pytest.mark.parametrize("name", SAID)
def test_a_configuration_that_cannot_be_read_ends_the_harvest_with_its_reason(
    tried: Tried, name: str
) -> None:
    report = next(report for report in tried.visit.reports if report["map"] == name)
    assert SAID[name] in report["error"]
    assert (report["exit_status"], report["finished"], report["counts"]) == (5, False, {})


def test_each_is_one_line_on_stderr_that_names_its_map(tried: Tried) -> None:
    whose = [f"map '{report['map']}'" for report in tried.visit.reports]
    errors = [
        f"ERROR: {error}" if name in error else f"ERROR: {name}: {error}"
        for name, error in zip(whose, (report["error"] for report in tried.visit.reports), strict=True)
    ]
    *said, last = tried.visit.said.splitlines()
    # The maps are harvested side by side, so the order of the lines may vary.
    assert sorted(said) == sorted(errors)
    assert last == f"exit status 5, unreachable, or moved: {', '.join(SAID)}"


def test_the_exit_status_says_unreachable(tried: Tried) -> None:
    assert tried.visit.status == 5


def test_nothing_is_begun_for_a_site_that_cannot_be_read(tried: Tried) -> None:
    assert tried.kept == {}


def test_without_configuration_the_depth_of_named_layers_is_probed(stage: Stage) -> None:
    (stage.files.folder / "overviewerConfig.js").unlink()
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", layers=[LAYER])
    log = stage.project.crawl("small", FIRST_DAY).stderr
    assert "the site has no configuration: depths were found by asking for tiles" in log
    assert f"layer {LAYER} of depth 2" in log
    assert len(stage.project.versions()) == 20


def test_a_site_that_has_not_the_named_layer_says_which_it_has(stage: Stage) -> None:
    stage.project.maps_file.unlink()
    stage.project.add_map("small", f"{stage.site.url}/", layers=["world-night"])
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 2
    assert "world-night" in done.error
    assert LAYER in done.error


def test_a_site_that_is_broken_for_a_moment_is_harvested(stage: Stage) -> None:
    stage.site.rules["/overviewerConfig.js"] = rules.first(2, rules.status(502))
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}


def test_a_good_map_is_harvested_after_a_bad_one(stage: Stage) -> None:
    stage.project.add_map("page", f"{stage.site.url}/page/")
    stage.site.rules["/page/overviewerConfig.js"] = rules.error_page()
    done = visit(stage.project, FIRST_DAY, names=("page", "small"))
    assert done.status == 5
    assert [report["exit_status"] for report in done.reports] == [5, 0]
    assert done.reports[1]["counts"] == {"add": 20}


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses all connections. It is bound, so that no other program opens it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


WRONG_LAYER = '{"path": "deep", "zoomLevels": 1000000000, "imgextension": "png"}'


def with_a_wrong_layer(stage: Stage) -> None:
    text = configuration().replace('"tilesets": [', f'"tilesets": [{WRONG_LAYER}, ')
    (stage.files.folder / "overviewerConfig.js").write_text(text, encoding="utf-8")


SAID_OF_LAYER = "layer 'deep' is not as Overviewer writes it: zoomLevels is 1000000000: expected `int` <= 32"


def test_a_layer_that_cannot_be_is_told_and_the_others_are_harvested(stage: Stage) -> None:
    with_a_wrong_layer(stage)
    done = visit(stage.project, FIRST_DAY)
    assert SAID_OF_LAYER in done.error
    assert (done.status, done.counts) == (5, {"add": 20})
    assert done.reports[0]["finished"]
    assert SAID_OF_LAYER in done.reports[0]["error"]


def test_a_map_is_added_with_its_other_layers(stage: Stage) -> None:
    with_a_wrong_layer(stage)
    done = stage.project.scrapy("add", "again", f"{stage.site.url}/", "--contact=", check=False)
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"{SAID_OF_LAYER}; map 'again' was added with its other layers" in error
    assert f"layer {LAYER}: depth 2" in done.stdout
    assert done.returncode == 5


def test_a_configuration_that_is_packed_unasked_is_not_unpacked(stage: Stage) -> None:
    bomb = gzip.compress(configuration().encode() + b" " * (17 * 1024 * 1024))
    stage.site.rules = {"/overviewerConfig.js": rules.packed(bomb)}
    done = visit(stage.project, FIRST_DAY)
    assert "overviewerConfig.js does not set overviewerConfig" in done.error
    assert (done.status, stage.project.kept()) == (5, {})


def test_no_name_of_a_site_steers_the_terminal(stage: Stage) -> None:
    nasty = json.dumps(f"{LAYER}\x1b[2J\u202e\nerror: forged")[1:-1]
    text = configuration().replace(f'"path": "{LAYER}"', f'"path": "{nasty}"')
    assert nasty in text
    (stage.files.folder / "overviewerConfig.js").write_text(text, encoding="utf-8")
    added = stage.project.scrapy("add", "again", f"{stage.site.url}/", "--contact=")
    done = stage.project.scrapy("harvest", "small", "-L", "INFO", check=False)
    said = f"layer {LAYER}\\x1b[2J\\u202e\\nerror: forged"
    assert said in added.stdout
    assert said in done.stderr
    for written in (added.stdout, added.stderr, done.stdout, done.stderr):
        assert not HIDDEN.findall(written.replace("\n", ""))
        assert max(map(len, written.splitlines()), default=0) <= 2100
