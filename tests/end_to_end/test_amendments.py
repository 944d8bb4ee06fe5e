"""maps.toml is changed while a harvest runs: what of it holds at once, and what from the next harvest on.

The story of one harvest is told once, and each test looks at a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, publish
from tests.end_to_end.project import Project, answered, await_condition, quiet_now
from tests.notices.receiver import receiver
from tests.servers.nginx import nginx as nginx_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.forking import Forked
    from tests.notices.receiver import Receiver
    from tests.servers.nginx import Nginx

SLOW: Final = {"requests_per_second": 0.2}
"""With this, the whole harvest would take minutes."""
REQUESTS: Final = 20


@dataclass(frozen=True, slots=True)
class Story:
    project: Project
    server: Nginx
    told: Receiver
    log: Path
    asked: dict[str, int] = field(default_factory=dict)
    """How many requests there had been at a moment."""
    status: list[int] = field(default_factory=list)

    def describe(self, **keys: Any) -> None:
        """Let maps.toml have the map with these keys only, as a person's editor saves it."""
        self.project.maps_file.unlink(missing_ok=True)
        self.project.add_map("small", f"{self.server.url}/", **keys)

    def logged(self, text: str) -> bool:
        return self.log.exists() and text in self.log.read_text()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("amended")
    site = publish(folder / "site")
    project = Project(folder / "project")
    project.folder.mkdir()
    with nginx_server(site.folder) as server, receiver() as told:
        story = Story(project, server, told, folder / "log")
        story.describe(**SLOW)
        command = ("crawl", "overviewer", "-a", "map=small", "-a", f"day={FIRST_DAY}")
        with project.running(*command, "-s", f"LOG_FILE={story.log}") as process:
            amend(story, process)
            story.status.append(process.wait(240))
        yield story


def amend(story: Story, process: Forked) -> None:
    def until(text: str) -> None:
        assert await_condition(lambda: story.logged(text), process), story.log.read_text()

    assert await_condition(lambda: answered(story.server) > 0, process)
    story.project.maps_file.write_text("[small\n", encoding="utf-8")
    until("what is under way goes on as before")
    story.describe(**SLOW, quiet_hours=quiet_now())
    until("quiet_hours: from now on")
    until("map 'small' has quiet hours")
    notify = {"notify": [story.told.address()], "on": ["always"]}
    story.asked["before"] = answered(story.server)
    story.describe(requests_per_second=100, budget={"requests": REQUESTS}, zooms=[-1, 0], **notify)
    until("requests_per_second, quiet_hours, budget, notify, on: from now on")


def test_a_file_that_cannot_be_read_changes_nothing_and_is_told_once(story: Story) -> None:
    lines = [
        line for line in story.log.read_text().splitlines() if "what is under way goes on as before" in line
    ]
    assert len(lines) == 1
    assert "is not valid TOML" in lines[0]


def test_another_rate_and_other_quiet_hours_hold_at_once(story: Story) -> None:
    """At the rate with which it began, there would be one request in five seconds."""
    assert story.asked["before"] < 5
    assert len(list(story.server.log())) == REQUESTS


def test_another_budget_holds_at_once_and_counts_what_was_spent(story: Story) -> None:
    assert story.status == [4]
    assert f"has reached its limit (budget: {REQUESTS} requests)" in story.log.read_text()


def test_whom_a_notice_reaches_can_be_changed(story: Story) -> None:
    (notice,) = story.told.posted
    assert notice.title.startswith(f"small, {FIRST_DAY}")


def test_what_the_walk_rests_on_waits_for_the_next_harvest(story: Story) -> None:
    assert "; zooms: from the next harvest on" in story.log.read_text()
