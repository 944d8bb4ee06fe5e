"""Maps that are published through git, harvested by their repository, which a real server serves."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import (
    ANTWORLD_MAP,
    DUCKMAP_ANEW,
    URL,
    PublishedMap,
    harvested_versions,
    rows,
)
from tests.servers.git_host import git_host
from tests.servers.nginx import Nginx
from tests.servers.repositories import FastImport, files_of, moment_of
from tileharvest.errors import ExitStatus

PATIENCE: Final = 240.0
"""Seconds in which what was told to end has ended. It needs less than one."""
DAY, NEXT_DAY, LATER = "2016-10-06", "2016-10-07", "2016-10-08"


class Host(NamedTuple):
    """A server of repositories, and the one that is on it."""

    server: Nginx
    repository: FastImport

    @property
    def url(self) -> str:
        return f"{self.server.url}/{self.repository.folder.name}"

    def publish(self, shared_maps: Path, name: str, version: int, day: str) -> None:
        files = files_of(shared_maps, name, version)
        self.repository.commit(
            moment_of(day), {f"docs/{path}": body for path, body in files.items()}, whole=True
        )
        self.repository.written()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nginx, Path]]:
    folder = tmp_path_factory.mktemp("repositories")
    with git_host(folder) as server:
        yield server, folder


@pytest.fixture
def host(served: tuple[Nginx, Path]) -> Host:
    """The host, with a repository of the test's own."""
    server, folder = served
    return Host(server, FastImport(folder / f"{sum(1 for _ in folder.iterdir())}.git"))


@pytest.mark.parametrize(
    "drawn",
    # Squares of one layer that are added and changed: the regions of several layers are, too.
    [DUCKMAP_ANEW, pytest.param(ANTWORLD_MAP, marks=pytest.mark.repetition)],
    ids=lambda drawn: drawn.name,
)
def test_the_history_is_that_of_harvests_over_http(
    drawn: PublishedMap, host: Host, project: Project, shared_maps: Path, common_folder: Path
) -> None:
    """What an import has brought is not fetched again."""
    first, *others = harvested = harvested_versions(shared_maps, common_folder, drawn)
    project.add_map(drawn.name, URL, renderer=drawn.renderer, git={"url": host.url, "path": "docs"})
    host.publish(shared_maps, drawn.name, first.version, first.day)
    project.scrapy("import", "git", host.url, drawn.name, "--path", "docs")
    for one in others:
        host.publish(shared_maps, drawn.name, one.version, one.day)
        host.server.clear_log()
        project.crawl(drawn.name, one.day, spider=drawn.renderer)
        assert rows(project.versions()) == rows(one.versions)
        # A file that has only another time is the same for git, and its tree lists no empty places.
        expected = {
            tile: "ign" if word == "nMod" else word for tile, word in one.outcomes.items() if word != "404"
        }
        assert project.outcomes() == expected
        log = list(host.server.log())
        summary = project.harvests(drawn.name)[-1]
        assert summary["requests"] == len(log) <= 7
        # Packs are counted as they are kept: without what git says on the way, and with what deltas refer to.
        sent = sum(line.size for line in log)
        assert abs(summary["received_bytes"] - sent) < 0.1 * sent + 4000
        assert all("TileHarvest/" in line.agent for line in log)
        assert summary["walk"] == "git"
    assert project.stored() == harvested[-1].stored


def test_a_quiet_day_costs_three_requests_and_no_tile(
    host: Host, project: Project, shared_maps: Path
) -> None:
    """One tile is far from all others."""
    host.publish(shared_maps, "alexjj", 1, DAY)
    tile = files_of(shared_maps, "alexjj", 1)["world-lighting/1.png"]
    host.repository.commit(moment_of(DAY), {"docs/world-lighting/0/0/0/0/0.png": tile})
    host.repository.written()
    project.add_map("small", URL, git={"url": host.url, "path": "docs", "branch": "main"})
    project.crawl("small", DAY)
    host.server.clear_log()
    # What a git leaves that is killed while it fetches.
    (project.data / "git/harvest/small/shallow.lock").touch()
    report = project.harvest("small", NEXT_DAY)
    assert report["counts"]["ign"] == 30
    log = list(host.server.log())
    assert len(log) <= 3
    assert sum(line.size for line in log) < 2000
    # The map grows by a level, under other addresses.
    host.publish(shared_maps, "alexjj", 2, LATER)
    report = project.harvest("small", LATER)
    assert [report["counts"][word] for word in ("ign", "upd", "add")] == [14, 15, 33]


def test_a_budget_of_bytes_ends_a_fetch_and_the_next_run_goes_on(
    host: Host, project: Project, shared_maps: Path, common_folder: Path
) -> None:
    """Nobody knows how many tiles a budget lets through. The first one is so small that a pack of 100 tiles
    would never come through."""
    (harvested, *_) = harvested_versions(shared_maps, common_folder, ANTWORLD_MAP)
    host.publish(shared_maps, ANTWORLD_MAP.name, 1, harvested.day)
    whole = sum(len(body) for body in harvested.stored.values())
    known, statuses = [0], []
    while not statuses or statuses[-1] == ExitStatus.BUDGET:
        project.maps_file.unlink(missing_ok=True)
        budget = {"bytes": whole // 2 if statuses else whole // 8}
        project.add_map(ANTWORLD_MAP.name, URL, git={"url": host.url, "path": "docs"}, budget=budget)
        done = project.crawl(ANTWORLD_MAP.name, harvested.day, check=False)
        statuses.append(done.returncode)
        known.append(len(project.versions()))
        # The budget may end the run that has brought the last tile.
        assert known[-1] > known[-2] or known[-1] == len(harvested.versions)
    assert statuses[0] == ExitStatus.BUDGET
    assert known[1] < 100 < len(harvested.versions)
    assert statuses[-1] == ExitStatus.DONE
    assert rows(project.versions()) == rows(harvested.versions)


def test_what_cannot_be_harvested_through_git_is_told_in_one_line(
    host: Host, project: Project, shared_maps: Path
) -> None:
    """A layer with more tiles than it may have is ended as on its site."""
    host.publish(shared_maps, "alexjj", 1, DAY)
    other = FastImport(host.repository.folder, "other")
    other.commit(moment_of(DAY), {"README.md": b"elsewhere"})
    other.written()
    cases = {
        "closed": ({"url": "http://me:s3cret@127.0.0.1:9/a.git"}, " http://127.0.0.1:9/a.git cannot be fet"),
        "top": ({"url": host.url}, "name its folder, maybe docs"),
        "other": ({"url": host.url, "branch": "other"}, "name a branch that has images there, maybe main"),
    }
    for name, (entry, words) in cases.items():
        project.add_map(name, URL, git=entry)
        done = project.crawl(name, DAY, check=False)
        assert (done.returncode, words in done.stderr) == (5, True), (name, done.stderr)
        assert "s3cret" not in done.stderr
    assert not project.database.exists()
    project.add_map("endless", URL, git={"url": host.url, "path": "docs"}, max_tiles=6)
    assert "has more than 6 tiles, so it may have no end" in project.crawl("endless", DAY, check=False).stderr
    assert 6 < len(project.versions()) < 29
    assert all("TileHarvest/" in line.agent for line in host.server.log())


@pytest.mark.parametrize("word", ["harvest", "import"])
def test_a_signal_ends_a_fetch_at_once_and_its_git_with_it(word: str, project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/map.git"
        project.add_map("small", URL, git=url)
        harvest = ("harvest", "small", "-a", f"day={DAY}")
        with project.running(*(harvest if word == "harvest" else ("import", "git", url, "small"))) as process:
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(PATIENCE)
                process.send_signal(signal.SIGTERM)
                _, told = process.communicate(PATIENCE)
                # What git asks, and then the end of git.
                while connection.recv(65_536):
                    pass
    assert process.returncode == 1
    assert "Traceback" not in told
    ends = {
        "harvest": "map 'small' was stopped; run again in the same segment to continue",
        "import": "stopped: the days that were imported are kept; run it again to go on",
    }
    assert told.splitlines()[-1] == ends[word]
