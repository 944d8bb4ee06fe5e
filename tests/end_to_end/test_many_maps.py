"""Many maps in one process: side by side, killed, beside hostile ones, and with few open files."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from sqlite3 import OperationalError
from typing import Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, publish
from tests.end_to_end.project import Project, answered, await_condition
from tests.history.outcomes import RESULTS
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


def add_maps(project: Project, server: Nginx, number: int, **keys: Any) -> None:
    for one in range(number):
        project.add_map(f"map-{one}", f"http://127.0.2.{one + 1}:{server.port}/", **keys)


def histories(project: Project) -> dict[str, Counter[tuple[Any, ...]]]:
    """By map: all that is recorded of its tiles, without numbers and times of the harvest."""
    found: defaultdict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for name, *row in project.query(
        RESULTS + "SELECT maps.name, layers.name, tiles.zoom, tiles.x, tiles.y, outcome, day, sha1, etag"
        " FROM results AS tiles JOIN layers ON layers.id = tiles.layer JOIN maps ON maps.id = layers.map"
        " LEFT JOIN versions ON versions.layer = tiles.layer AND versions.zoom = tiles.zoom"
        " AND versions.x = tiles.x AND versions.y = tiles.y"
    ):
        found[name][tuple(row)] += 1
    return dict(found)


def finished(project: Project) -> set[str]:
    """The maps whose harvest is complete."""
    # At first there is no file, and then one without tables.
    with suppress(OperationalError):
        rows = project.query(
            "SELECT name FROM maps JOIN harvests ON harvests.map = maps.id WHERE reason = 'finished'"
        )
        return {name for (name,) in rows}
    return set()


@pytest.fixture(scope="module")
def undisturbed(server: Nginx, tmp_path_factory: pytest.TempPathFactory) -> Counter[tuple[Any, ...]]:
    """The history of one map that is harvested alone."""
    project = Project(tmp_path_factory.mktemp("undisturbed"))
    add_maps(project, server, 1)
    project.scrapy(*HARVEST)
    (history,) = histories(project).values()
    assert len(history) == len(PATHS)
    return history


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
    project: Project, server: Nginx, undisturbed: Counter[tuple[Any, ...]], kills: int
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
    add_maps(project, server, MAPS)
    project.scrapy(*harvest)
    assert histories(project) == {f"map-{one}": undisturbed for one in range(MAPS)}


def test_hostile_maps_hold_up_no_other_one(
    project: Project, server: Nginx, undisturbed: Counter[tuple[Any, ...]], tmp_path: Path
) -> None:
    """They come first, and take all places."""
    with ExitStack() as sites:
        for name, rule in HOSTILE.items():
            site = sites.enter_context(misbehaving(publish(tmp_path / name).folder))
            site.rule_for_all = tiles_only(rule)
            project.add_map(name, f"{site.url}/")
        add_maps(project, server, MAPS - len(HOSTILE))
        others = {f"map-{one}" for one in range(MAPS - len(HOSTILE))}
        with project.running(*HARVEST, "--at-once", str(len(HOSTILE)), "-s", "HOST_DOWN_AFTER=2") as process:
            assert await_condition(lambda: finished(project) >= others, process)
            process.kill()
    found = histories(project)
    assert {name: found[name] for name in others} == dict.fromkeys(others, undisturbed)
