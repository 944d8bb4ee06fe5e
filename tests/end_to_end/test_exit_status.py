"""How `scrapy harvest` and `scrapy crawl` end, what they write where, and what a dry run leaves."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    THIRD_DAY,
    Stage,
    address,
    drawn,
    visit,
)
from tests.end_to_end.project import Project, contents
from tests.servers import rules


def test_done_with_data_on_stdout_and_the_log_on_stderr(stage: Stage) -> None:
    words = ("harvest", "small", "-a", f"day={FIRST_DAY}", "--json", "-L", "INFO")
    done = stage.project.scrapy_from_nothing(*words)
    (report,) = json.loads(done.stdout)
    assert (report["finished"], report["counts"]) == (True, {"add": 20})
    assert (done.returncode, report["exit_status"]) == (0, 0)
    assert "Spider closed (finished)" in done.stderr


def test_the_outcomes_in_words_and_in_codes(stage: Stage) -> None:
    done = stage.project.scrapy("harvest", "small", "--day", FIRST_DAY, "--verbose")
    line, codes = done.stdout.splitlines()
    assert line.startswith(f"small, {FIRST_DAY}: done; 20 new; 22 requests, ")
    assert (codes, done.stderr) == ("  in codes: add 20", "")


@pytest.mark.parametrize("spider", ["mistaken", "overviewer"])
def test_a_mistake_in_a_spider_ends_the_crawl_and_is_said(spider: str, stage: Stage) -> None:
    modules = ("-s", "SPIDER_MODULES=tests.end_to_end.user_spiders")
    done = stage.project.scrapy("crawl", spider, "-a", "map=small", *modules, check=False)
    assert done.returncode == 1
    assert "the crawl stopped (ZeroDivisionError('a mistake'))" in done.stderr
    assert "Spider closed (error)" in done.stderr


def test_a_crawl_ends_with_the_status_of_a_harvest(stage: Stage) -> None:
    """Each run goes on with what the one before it has left."""

    def status(*more: str, name: str = "small", day: str = FIRST_DAY) -> int:
        return stage.project.crawl(name, day, *more, check=False).returncode

    assert status("-s", 'BUDGET={"requests": 5}') == 4
    assert [status(), status()] == [0, 0]
    stage.site.rules[address("3")] = rules.status(403)
    assert status(day=SECOND_DAY) == 3
    stage.project.add_map("away", "http://127.0.0.1:1/")
    assert status("-s", "RETRY_TIMES=0", name="away") == 5


def test_what_fails_in_harvest_after_harvest_is_told_with_what_broke(stage: Stage) -> None:
    """One tile is broken off, and the other one is forbidden."""
    # One request at a time: after a failure on the way a 403 might be taken for a limit.
    stage.describe(concurrency=1)
    stage.site.rules = {address("32"): rules.broken_off(100), address("33"): rules.status(403)}
    for day in (FIRST_DAY, SECOND_DAY, THIRD_DAY):
        assert visit(stage.project, day).status == 3
    broken, forbidden = json.loads(stage.project.scrapy("failures", "small", "--json").stdout)
    assert (broken["tile"], broken["harvests"]) == ("world-day:0_1_-3", 3)
    assert (forbidden["tile"], forbidden["harvests"]) == ("world-day:0_3_-3", 3)
    assert forbidden["reason"] == "403 Forbidden (2 attempts)"
    *_, line = stage.project.scrapy("failures", "small").stdout.splitlines()
    assert line.startswith("2 tiles failed in 3 harvests or more: ")
    assert all(row["tile"] in line for row in (broken, forbidden))


def test_a_dry_run_reports_what_a_harvest_reports_and_changes_no_byte(stage: Stage) -> None:
    dry = visit(stage.project, FIRST_DAY, "-a", "dry=1")
    assert (dry.status, dry.counts, stage.project.data.exists()) == (0, {"add": 20}, False)
    visit(stage.project, FIRST_DAY)
    stage.files.write("00", drawn("changed"))
    before = kept(stage.project)
    assert visit(stage.project, SECOND_DAY, "-a", "dry=1").counts == {"ign": 19, "upd": 1}
    assert kept(stage.project) == before


def kept(project: Project) -> dict[str, bytes]:
    """The files of the data folder but those of queues and hosts, which note who opened them last."""
    passing = ("queues/", "throttle/")
    return {name: body for name, body in contents(project.data).items() if not name.startswith(passing)}


def test_a_dry_run_counts_against_the_days_budget(stage: Stage) -> None:
    """A first harvest of the small site needs 22 requests, a dry one too. It is noon where the map is."""
    noon = f"Etc/GMT{datetime.now(UTC).hour - 12:+}"
    stage.describe(daily_budget={"requests": 30}, timezone=noon)
    dry = visit(stage.project, FIRST_DAY, "-a", "dry=1")
    assert (dry.status, len(stage.site.received)) == (0, 22)
    assert visit(stage.project, FIRST_DAY).status == 4
    assert len(stage.site.received) == 30
    third = visit(stage.project, FIRST_DAY, "-a", "dry=1")
    assert (third.status, len(stage.site.received)) == (4, 30)
    assert "has spent its daily budget" in third.said


# -- data folders that cannot be written, and histories of which a page is damaged


@pytest.mark.parametrize("part", ["", "tiles"])
def test_a_file_in_place_of_the_data_folder_or_the_store(stage: Stage, part: str) -> None:
    place = stage.project.data / part
    place.parent.mkdir(exist_ok=True)
    place.write_text("a note", encoding="utf-8")
    done = visit(stage.project, FIRST_DAY)
    assert done.status == 1
    assert str(place) in done.error
    assert place.read_text(encoding="utf-8") == "a note"
    place.unlink()
    assert visit(stage.project, FIRST_DAY).counts == {"add": 20}


@pytest.mark.parametrize("table", ["harvests", "tiles", "versions"])
def test_a_damaged_page_ends_the_harvest_sooner_or_later(stage: Stage, table: str) -> None:
    """A harvest that has begun when it meets the page leaves no log beside the file: a log would spoil the
    backup that takes the file's place."""
    visit(stage.project, FIRST_DAY)
    files, database = contents(stage.project.data), stage.project.database
    with closing(sqlite3.connect(database)) as connection:
        ((page, size),) = connection.execute(
            "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?", (table,)
        )
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    done = visit(stage.project, SECOND_DAY)
    assert done.status == 1
    assert "restore it from a backup" in done.error
    assert contents(stage.project.data).keys() == files.keys()
    database.write_bytes(files["history.sqlite"])
    assert visit(stage.project, SECOND_DAY).counts == {"ign": 20}
