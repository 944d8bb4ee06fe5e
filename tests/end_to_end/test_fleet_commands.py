"""The commands beside a queue in Redis: what the workers of other boxes see, and what they are told."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.end_to_end.project import Project
from tests.queue.driven import DAY, Driven, entry
from tests.servers.redis import RedisServer, queue_on


@pytest.fixture
def fleet(project: Project, redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose maps wait in Redis. Nothing is ever asked of their sites."""
    monkeypatch.setenv("REDIS_URL", redis.url)
    for name in ("small", "other", "asleep"):
        project.add_map(name, "http://map.example.net/")
    return project


@pytest.fixture
def join(redis: RedisServer) -> Iterator[Callable[[str], Driven]]:
    """A worker of a map, in this process."""
    workers: list[Driven] = []

    def joined(name: str) -> Driven:
        workers.append(Driven(lambda: queue_on(redis, name, server_clock=True, max_attempts=5)))
        return workers[-1].open()

    yield joined
    for worker in workers:
        worker.__exit__()


def told(project: Project, *command: str) -> Any:
    return json.loads(project.scrapy(*command, "--json").stdout)


def test_the_queue_is_shown_with_its_workers(fleet: Project, join: Callable[[str], Driven]) -> None:
    worker = join("small")
    worker.tell(entry("1"), entry("2"), entry("3", -1), entry("4", due=9e9))
    worker.lease(1)
    worker.run(worker.queue.beat(0.0))
    found = told(fleet, "queue", "small")
    (one,) = found.pop("workers")
    assert (one["host"], one["pid"], one["segment"]) == (socket.gethostname(), os.getpid(), DAY)
    assert one["leased"] == 1
    assert {found.pop("paused"), found.pop("rate"), found.pop("harvest")} == {None}
    counts = {"pending/plus": 0, "pending/normal": 1, "pending/minus": 1, "delayed": 1, "leased": 1}
    assert found == counts | {"failed": 0, "done": 0, "seen": 4, "left": 4}
    table = fleet.scrapy("queue", "small").stdout.splitlines()
    assert ["pending/minus", "1"] in [line.split() for line in table]
    assert table[-1].split()[:2] == [socket.gethostname(), str(os.getpid())]


def test_the_workers_of_a_spider_are_listed_with_those_of_maps(
    fleet: Project, join: Callable[[str], Driven]
) -> None:
    for name in ("tileharvest:pages", "other"):
        join(name)
    modules = ("-s", "SPIDER_MODULES=tests.end_to_end.page_spider")
    (only,) = told(fleet, "workers", "pages", *modules)
    assert only["spider"] == "pages"
    found = told(fleet, "workers", *modules)
    assert [(one.get("map"), one.get("spider")) for one in found] == [("other", None), (None, "pages")]
