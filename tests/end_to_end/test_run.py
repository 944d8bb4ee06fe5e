"""`scrapy run`: a worker that harvests each map when it is due."""

import json
import signal
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.request import urlopen

from tests.end_to_end.bad_input.small_site import PATHS, Stage, address
from tests.end_to_end.forking import Forked
from tests.end_to_end.project import Project, await_condition
from tests.servers import rules

FINISHED: Final = (
    "SELECT maps.name FROM maps JOIN harvests ON harvests.map = maps.id"
    " WHERE reason = 'finished' ORDER BY ended"
)


def finished(project: Project) -> list[str]:
    """The maps whose harvest is finished, in order."""
    # The worker may be about to make the file and its tables.
    with suppress(sqlite3.OperationalError):
        return [row[0] for row in project.query(FINISHED)]
    return []


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
    stage.site.rules.clear()
    with stage.project.running("run") as process:
        said(process, "nothing is due")
    assert len(stage.project.versions()) == len(PATHS)
