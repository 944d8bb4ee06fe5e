"""Sites that redirect to other addresses or hosts for some of their files, or for all."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    LAYER,
    PATHS,
    SECOND_DAY,
    Stage,
    address,
    drawn,
    found,
    methods,
    versions,
    visit,
)
from tests.end_to_end.project import await_condition, stop
from tests.servers import rules
from tests.servers.misbehaving import Misbehaving, misbehaving
from tests.servers.rules import Slow

FOR_GOOD, FOR_NOW, IN_CIRCLES, TO_ITSELF = "00", "01", "10", "11"


def test_tiles_that_lie_elsewhere_are_fetched_once_and_loops_are_followed_five_times(stage: Stage) -> None:
    """Tiles are recorded under their own names. The first harvest asks by GET, and the second one by HEAD,
    also for a tile that is still unknown."""
    elsewhere = stage.files.folder / "elsewhere"
    elsewhere.mkdir()
    for path in (FOR_GOOD, FOR_NOW):
        (elsewhere / f"{path}.png").write_bytes(drawn(f"{path} elsewhere"))
    stage.site.rules = {
        address(FOR_GOOD): rules.redirect(301, f"{stage.site.url}/elsewhere/{FOR_GOOD}.png"),
        address(FOR_NOW): rules.redirect(302, f"../../elsewhere/{FOR_NOW}.png"),
        address(IN_CIRCLES): rules.redirect(302, "/circle.png"),
        "/circle.png": rules.redirect(302, address(IN_CIRCLES)),
        address(TO_ITSELF): rules.redirect(301, address(TO_ITSELF)),
    }
    visits = [visit(stage.project, day) for day in (FIRST_DAY, SECOND_DAY)]
    assert [(day.status, day.counts) for day in visits] == [
        (3, {"add": 18, "fail": 2}),
        (3, {"ign": 18, "fail": 2}),
    ]
    assert all("failed tiles of map 'small': more than 5 redirects 2;" in day.said for day in visits)
    for path in (FOR_GOOD, FOR_NOW):
        ((day, name, _),) = versions(stage.project, path)
        assert day == FIRST_DAY
        assert stage.project.stored()[f"{str(name)[:2]}/{name}.png"] == drawn(f"{path} elsewhere")
        asked = [one.method for one in stage.site.received if one.path == f"/elsewhere/{path}.png"]
        assert asked.count("GET") == 1
    assert methods(stage.site, TO_ITSELF) == ["GET"] * 6 + ["HEAD"] * 6


def test_layers_lie_beside_the_configuration_that_was_found(stage: Stage) -> None:
    """The whole site has moved into a folder, and the old address of its configuration redirects there."""
    folder = stage.files.folder
    (folder / "new").mkdir()
    for part in ("overviewerConfig.js", LAYER):
        shutil.move(folder / part, folder / "new" / part)
    stage.site.rules["/overviewerConfig.js"] = rules.redirect(302, "/new/overviewerConfig.js?v=2")
    done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"add": 20})
    asked = {request.path.split("/")[1] for request in stage.site.received}
    assert asked == {"robots.txt", "overviewerConfig.js", "new"}


@contextmanager
def another_host(stage: Stage, robots: str) -> Iterator[Misbehaving]:
    """Another host that has this robots.txt, and to which the site redirects for four tiles."""
    (stage.files.folder / "robots.txt").write_text(robots, encoding="utf-8")
    stage.site.rules["/robots.txt"] = rules.status(404)
    with misbehaving(stage.files.folder) as other:
        for path in ("00", "01", "02", "03"):
            stage.site.rules[address(path)] = rules.redirect(302, f"{other.url}{address(path)}")
        yield other


@pytest.mark.parametrize(
    ("robots", "rule", "reason"),
    [
        ("User-agent: *\nDisallow: /\n", None, "robots.txt forbids it"),
        ("", rules.status(503), "its robots.txt answers 503"),
    ],
)
def test_another_host_that_does_not_allow_it_is_asked_for_no_tile(
    stage: Stage, robots: str, rule: rules.Rule | None, reason: str
) -> None:
    with another_host(stage, robots) as other:
        if rule is not None:
            other.rules["/robots.txt"] = rule
        done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (3, {"add": 16, "fail": 4})
    assert {request.path for request in other.received} == {"/robots.txt"}
    assert reason in (found(stage.project)["00"].reason or "")


def test_another_host_is_asked_within_its_own_limits(stage: Stage) -> None:
    """The map may have four requests on the way, and the other host allows one."""
    slow = Slow(0.05)
    with another_host(stage, "User-agent: *\nDisallow: /nothing\n") as other:
        other.rule_for_all = slow
        for path in PATHS:
            where = f"http://localhost:{other.port}{address(path)}"
            stage.site.rules[address(path)] = rules.redirect(302, where)
        with stage.project.maps_file.open("a") as file:
            file.write("[hosts.localhost]\nconcurrency = 1\n")
        assert visit(stage.project, FIRST_DAY).counts == {"add": 20}
    paths = [request.path for request in other.received]
    assert (paths[0], paths.count("/robots.txt"), len(paths)) == ("/robots.txt", 1, 21)
    assert slow.most == 1


def test_a_harvest_that_is_ended_while_another_host_is_looked_at_loses_no_tile(stage: Stage) -> None:
    """The tiles wait for another attempt, as the other host's robots.txt cannot be read."""
    with another_host(stage, "") as other:
        other.rules["/robots.txt"] = rules.status(503)
        patient = ("-a", f"day={FIRST_DAY}", "-s", "RETRY_PAUSE=5")
        with stage.project.running("harvest", "small", *patient) as process:
            assert await_condition(lambda: bool(other.received), process)
            stop(process, signal.SIGTERM)
        other.rules.clear()
        done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"add": 20})
