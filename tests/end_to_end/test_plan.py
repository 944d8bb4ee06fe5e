"""`scrapy plan`: compared with the files of a real map, and with what harvests of it cost afterwards."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.project import quiet_now
from tests.end_to_end.real_maps import ANTWORLD, ANTWORLD_DEPTH, SMALL
from tests.end_to_end.rendering import Rendering
from tests.fleet.gate import Slow
from tests.servers.nginx import HEAD_REFUSED, nginx
from tests.servers.published import published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.end_to_end.project import Project
    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx

PART: Final = {
    "zooms": [-2, 0],
    "zones": [{"center": [80, 22], "width": 10, "height": 4, "zoom": 0}],
}
"""Of antworld: some twenty tiles."""
LOOKED_AT: Final = ["/robots.txt", "/overviewerConfig.js"]
"""Before the first question about a tile."""


@pytest.fixture(scope="module")
def site(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendering:
    """The newest version of a real map."""
    folder = published(shared_maps, ANTWORLD, 4, tmp_path_factory.mktemp("site"))
    return Rendering(folder, ANTWORLD_DEPTH)


@pytest.fixture(scope="module")
def server(site: Rendering) -> Iterator[Nginx]:
    with nginx(site.folder) as running:
        yield running


def planned(project: Project, name: str, *more: str) -> dict[str, Any]:
    return dict(json.loads(project.scrapy("plan", name, "--json", *more).stdout))


@pytest.mark.parametrize("seed", [2, 3])
def test_a_sample_tells_about_how_much_is_there(
    project: Project, site: Rendering, server: Nginx, seed: int
) -> None:
    project.add_map(ANTWORLD, server.url, change_index=False)
    server.clear_log()
    plan = planned(project, ANTWORLD, "--seed", str(seed), "--requests", "200")
    log = list(server.log())
    images = [len(image) for image in site.images().values()]
    truth = {
        "tiles": len(images),
        "requests": len(images) + len(site.missing()) + len(LOOKED_AT),
        "received_bytes": sum(images),
    }
    for name, value in truth.items():
        assert plan["least"][name] <= value <= plan["most"][name]
    assert abs(plan["expected"]["tiles"] - truth["tiles"]) < 0.2 * truth["tiles"]
    assert plan["asked"] == len(log) <= 200
    assert [line.path for line in log if line.method != "HEAD"] == LOOKED_AT
    assert len({line.path for line in log}) == len(log)
    assert not project.data.exists()


def test_a_map_smaller_than_the_sample_is_counted_to_the_request_and_so_is_the_next_harvest(
    project: Project, server: Nginx
) -> None:
    project.add_map(ANTWORLD, server.url, walk="full", **PART)
    sampled = planned(project, ANTWORLD)
    server.clear_log()
    report = project.harvest(ANTWORLD, "2021-05-12")
    log = list(server.log())
    assert sampled["exact"]
    assert sampled["expected"]["requests"] == len(log) == report["requests"]
    assert sampled["expected"]["tiles"] == report["counts"]["add"]
    images = [line for line in log if line.path.endswith(".png") and line.status == 200]
    assert sampled["expected"]["received_bytes"] == sum(line.size for line in images)

    project.harvest(ANTWORLD, "2021-05-13")
    server.clear_log()
    again = planned(project, ANTWORLD)
    assert list(server.log()) == []
    last = project.harvests(ANTWORLD)[-1]
    assert again["day"] == "2021-05-13"
    assert again["expected"]["requests"] == last["requests"] == report["requests"]
    assert again["expected"]["received_bytes"] == last["received_bytes"]
    # If all had changed, it would be the first harvest once more, with a HEAD before each GET
    # and no page for a missing file.
    assert again["most"]["requests"] == report["requests"] + report["counts"]["add"]
    of_tiles = report["received_bytes"] - sum(line.size for line in log if line.status == 404)
    assert again["most"]["received_bytes"] == pytest.approx(of_tiles, rel=0.1)
    sampled_again = planned(project, ANTWORLD, "--sample")
    assert (sampled_again["from"], sampled_again["asked"]) == ("sample", sampled["asked"])
    assert sampled_again["expected"]["requests"] == again["most"]["requests"]
    assert len(list(server.log())) == sampled["asked"]


def test_both_walks_are_planned_as_harvests_that_make_them_turn_out(project: Project, server: Nginx) -> None:
    always = {"full_every": 100_000, "audit": 0, "change_index": False}
    project.add_map(ANTWORLD, server.url, **always)
    project.harvest(ANTWORLD, "2021-05-12")
    first, harvested = planned(project, ANTWORLD), project.harvests(ANTWORLD)[-1]
    assert first["most"]["requests"] == harvested["requests"] + harvested["counts"]["add"]
    assert (first["walk"], first["expected"]["requests"]) == ("pruned", 4)
    assert "tiles changed after the one above it" in first["walk_reason"]

    project.harvest(ANTWORLD, "2021-05-13")
    plan, pruned = planned(project, ANTWORLD), project.harvests(ANTWORLD)[-1]
    assert plan["expected"]["requests"] == plan["pruned"]["requests"] == pruned["requests"]
    assert pruned["requests"] == 4 + len(LOOKED_AT)

    project.maps_file.unlink()
    project.add_map(ANTWORLD, server.url, **always, walk="full")
    project.harvest(ANTWORLD, "2021-05-14")
    assert plan["full"]["requests"] == project.harvests(ANTWORLD)[-1]["requests"]
    assert plan["full"]["tiles"] == plan["pruned"]["tiles"]


def test_the_table_tells_both_walks_and_which_will_be_made(project: Project, server: Nginx) -> None:
    project.add_map(ANTWORLD, server.url, full_every=100_000)
    project.harvest(ANTWORLD, "2021-05-12")
    shown = project.scrapy("plan", ANTWORLD).stdout
    assert "pruned, at least   full walk   at most" in shown
    assert "the next walk asks for what the site says has changed; if all may have changed, it is" in shown
    assert " it is pruned: none of " in shown


def test_the_table_and_the_budget(project: Project, server: Nginx) -> None:
    project.add_map(ANTWORLD, server.url, budget={"requests": 100})
    title, nothing, *rest = project.scrapy("plan", ANTWORLD, "--seed", "1").stdout.splitlines()
    assert title.endswith(" requests made now")
    assert nothing == ""
    lines = [line.split() for line in rest if line]
    assert ["about", "at", "least", "at", "most"] in lines
    assert {"tiles", "requests", "received", "time"} <= {line[0] for line in lines}
    assert " ".join(lines[-1]) == "with the budget of a run it will be done in 6 runs"


def test_a_sample_keeps_to_the_pace_of_the_map(
    project: Project, shared_maps: Path, tmp_path: Path, nginx: Callable[..., Nginx]
) -> None:
    running = nginx(published(shared_maps, "alexjj", 1, tmp_path / "small"))
    project.add_map(SMALL, running.url, delay=0.02)
    plan = planned(project, SMALL, "--requests", "42")
    times = [line.time for line in running.log()]
    # The first may come late on a busy machine, but all others start after it was answered. nginx logs whole
    # milliseconds.
    assert times[-1] - times[0] > 0.02 * (len(times) - 2) - 0.002
    assert plan["expected"]["seconds"] >= 0.02 * plan["expected"]["requests"] - 0.1


def test_a_sample_keeps_to_the_concurrency_of_the_map(
    project: Project, site: Rendering, misbehaving: Callable[[Path], Misbehaving]
) -> None:
    slow = Slow(0.05)
    server = misbehaving(site.folder)
    server.rule_for_all = slow
    project.add_map(ANTWORLD, server.url, concurrency=2)
    assert planned(project, ANTWORLD, "--requests", "60")["asked"] == len(server.received)
    assert slow.most == 2


@pytest.mark.parametrize(
    ("name", "arguments", "status", "said"),
    [
        pytest.param("nowhere", [], 5, "cannot be reached", id="nobody there"),
        pytest.param("none", [], 2, "has no map 'none'", id="no such map"),
        pytest.param(ANTWORLD, ["--requests", "30"], 2, "write --requests 58, or more", id="too few"),
        pytest.param(ANTWORLD, ["-s", f"QUIET_HOURS={quiet_now()}"], 1, "quiet", id="quiet"),
    ],
)
def test_what_cannot_be_planned_is_told_in_a_line(
    project: Project, server: Nginx, name: str, arguments: list[str], status: int, said: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        project.add_map("nowhere", f"http://127.0.0.1:{taken.getsockname()[1]}/")
        project.add_map(ANTWORLD, server.url)
        server.clear_log()
        done = project.scrapy("plan", name, *arguments, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert [line.path for line in server.log()] in ([], LOOKED_AT)
    assert not project.data.exists()


def test_a_host_that_refuses_head_is_not_made_to_send_tiles(
    project: Project, site: Rendering, nginx: Callable[..., Nginx]
) -> None:
    running = nginx(site.folder, location=HEAD_REFUSED)
    project.add_map(ANTWORLD, running.url)
    done = project.scrapy("plan", ANTWORLD, check=False)
    assert done.returncode == 1
    assert "refuses HEAD" in done.stderr
    assert {line.method for line in running.log() if line.path.endswith(".png")} == {"HEAD"}
