"""Many maps in one process: when they are due, side by side, killed, and beside hostile ones."""

import json
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from sqlite3 import OperationalError
from typing import Any, Final
from urllib.request import urlopen

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, Stage, address, publish
from tests.end_to_end.forking import Forked
from tests.end_to_end.project import Project, answered, await_condition
from tests.servers import rules
from tests.servers.misbehaving import misbehaving
from tests.servers.nginx import Nginx
from tests.servers.nginx import nginx as nginx_server
from tests.servers.rules import tiles_only

MAPS: Final = 20
HARVEST: Final = ("harvest", "--all", "-a", f"day={FIRST_DAY}")
HOSTILE: Final = {
    "hangs": rules.hang(),
    "endless": rules.endless(),
    "resets": rules.reset(),
    "fails": rules.status(500),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """One site of 20 tiles, at every address of the loopback."""
    site = publish(tmp_path_factory.mktemp("site"))
    with nginx_server(site.folder, address="0.0.0.0") as server:
        yield server


def add_maps(project: Project, server: Nginx, number: int, **keys: Any) -> set[str]:
    for one in range(number):
        project.add_map(f"map-{one}", f"http://127.0.2.{one + 1}:{server.port}/", **keys)
    return {f"map-{one}" for one in range(number)}


def finished(project: Project) -> list[str]:
    """The maps whose harvest is complete, in order."""
    # At first there is no file, and then one without tables.
    with suppress(OperationalError):
        rows = project.query(
            "SELECT maps.name FROM maps JOIN harvests ON harvests.map = maps.id"
            " WHERE reason = 'finished' ORDER BY ended"
        )
        return [name for (name,) in rows]
    return []


def kept(project: Project) -> dict[str, list[str]]:
    """By map: the images of all versions."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, image in project.query(
        "SELECT maps.name, sha1 FROM versions JOIN layers ON layers.id = versions.layer"
        " JOIN maps ON maps.id = layers.map ORDER BY sha1"
    ):
        found[name].append(image)
    return dict(found)


def said(process: Forked, word: str) -> str:
    """The next line on stderr that has the word."""
    while word not in (line := process.stderr.readline()):
        assert line, "it has ended"
    return line


def test_maps_are_harvested_when_they_are_due_and_shown_while_the_file_changes(stage: Stage) -> None:
    project = stage.project
    with project.running("run", "--serve", "--port", "0") as process:
        address = process.stdout.readline().split()[4]
        line = said(process, "nothing is due")
        (shown,) = json.loads(project.scrapy("maps", "--json").stdout)
        project.add_map("second", f"{stage.site.url}/")
        project.add_map("idle", f"{stage.site.url}/", enabled=False)
        assert await_condition(lambda: finished(project) == ["small", "second"], process)
        said(process, "nothing is due")
        right = project.maps_file.read_text().replace("enabled = false", "enabled = true")
        project.maps_file.write_text(right.replace("enabled = true", "enabled = 1"))
        assert "map 'idle': key 'enabled'" in said(process, "error: ")
        project.maps_file.write_text(right)
        assert await_condition(lambda: finished(project) == ["small", "second", "idle"], process)
        said(process, "nothing is due")
        with urlopen(f"{address}api/v1/maps") as answer:
            assert "second" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=240)
    due = datetime.fromisoformat(shown["due"])
    assert line == f"nothing is due; next is map 'small' at {due:%Y-%m-%d %H:%M} UTC\n"
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    assert today < due < today + timedelta(days=2)
    assert process.returncode == 0
    assert output.startswith("small, ")
    assert output.count(": done; 20 new; ") == 3


def test_the_second_signal_names_the_maps_that_are_left_at_once(stage: Stage) -> None:
    stage.site.rules[address("3")] = rules.hang()
    with stage.project.running("run") as process:
        assert await_condition(lambda: address("3") in (one.path for one in stage.site.received), process)
        process.send_signal(signal.SIGTERM)
        said(process, "stopping")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (0, "left at once, and going on at the next start: small\n")


def test_a_line_for_each_map_is_written_when_it_is_done_and_the_last_names_the_worst(
    project: Project, server: Nginx
) -> None:
    add_maps(project, server, 2)
    project.add_map("away", "http://127.0.0.1:1/")
    project.add_map("spent", f"http://127.0.2.9:{server.port}/", budget={"requests": 5})
    done = project.scrapy(*HARVEST, "-s", "RETRY_TIMES=0", check=False)
    assert done.returncode == 5
    lines = {line.partition(",")[0]: line for line in done.stdout.splitlines()}
    assert ": done; 20 new; 22 requests" in lines["map-0"]
    assert ": ended by a budget; " in lines["spent"]
    assert ": unreachable, or moved; " in lines["away"]
    assert done.stderr.splitlines()[-1] == "exit status 5, unreachable, or moved: away"


def test_a_process_that_is_killed_again_and_again_loses_nothing_of_any_map(
    project: Project, server: Nginx, tmp_path: Path, kills: int
) -> None:
    # A request that each killed process had leased is offered once more.
    harvest = (*HARVEST, "-s", f"MAX_ATTEMPTS={kills + 1}")
    server.clear_log()
    # So slow that it is not done before the last kill.
    add_maps(project, server, MAPS, requests_per_second=10)
    random = Random(20)
    for _ in range(kills):
        # Two requests of each map find out what there is.
        until = answered(server) + random.randint(MAPS // 2, 4 * MAPS)
        with project.running(*harvest, "--at-once", str(random.randint(2, MAPS))) as process:
            assert await_condition(lambda wanted=until: answered(server) >= wanted, process)
            process.kill()
    assert len(finished(project)) < MAPS
    project.maps_file.unlink()
    names = add_maps(project, server, MAPS)
    project.scrapy(*harvest)
    assert set(finished(project)) == names
    site = publish(tmp_path / "same")
    assert kept(project) == dict.fromkeys(names, sorted(map(site.sha1, PATHS)))


def test_hostile_maps_hold_up_no_other_one(project: Project, server: Nginx, tmp_path: Path) -> None:
    """They come first, and take all places."""
    with ExitStack() as sites:
        for name, rule in HOSTILE.items():
            site = sites.enter_context(misbehaving(publish(tmp_path / name).folder))
            site.rule_for_all = tiles_only(rule)
            project.add_map(name, f"{site.url}/")
        others = add_maps(project, server, MAPS - len(HOSTILE))
        with project.running(*HARVEST, "--at-once", str(len(HOSTILE)), "-s", "HOST_DOWN_AFTER=2") as process:
            assert await_condition(lambda: others <= set(finished(project)), process)
            process.kill()
    found = kept(project)
    assert {len(found[name]) for name in others} == {len(PATHS)}
