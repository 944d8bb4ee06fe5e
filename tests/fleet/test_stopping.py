"""An order to stop that is heard while a worker waits for the queue: before it harvests, and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.fleet.records import assert_harvested
from tests.fleet.workers import HARVEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet, Worker
    from tests.servers.nginx import Nginx

LONG: Final = 1.0
"""Seconds for which the queue keeps who asks it waiting after it has heard of the order."""


def harvest_stopped(fleet: Fleet, stopped_at: str) -> Worker:
    ordinary = fleet.settings
    fleet.settings = {
        "SCHEDULER": "tests.scheduler.stub_spiders.StoppedScheduler",
        "STOPPED_AT": stopped_at,
        "STOPPED_LONG": LONG,
    }
    worker = fleet.start(command=HARVEST)
    fleet.settings = ordinary
    fleet.await_ends(worker)
    return worker


@pytest.mark.parametrize("stopped_at", ["allow", "join"])
def test_who_is_stopped_while_it_begins_complains_of_nothing_and_the_next_one_harvests_all(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx], stopped_at: str
) -> None:
    server = nginx(small.folder)
    fleet.describe(server.url, budget={"requests": 1000})
    stopped = harvest_stopped(fleet, stopped_at)
    assert stopped.status == 1
    assert stopped.errors == []
    assert "Traceback" not in stopped.log
    assert "was stopped; run it again to continue" in stopped.log
    last = fleet.start(command=HARVEST)
    fleet.await_ends(last)
    assert last.status == 0
    assert_harvested(fleet, small)


def test_who_is_stopped_while_it_completes_the_harvest_completes_it(
    fleet: Fleet, small: Rendering, nginx: Callable[..., Nginx]
) -> None:
    fleet.describe(nginx(small.folder).url)
    stopped = harvest_stopped(fleet, "ended")
    assert "Traceback" not in stopped.log
    assert "exception was never retrieved" not in stopped.log
    assert stopped.status == 0
    assert_harvested(fleet, small)
