"""Two maps of one host, harvested at once by two processes: what the owner allows, they get together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, staged
from tests.end_to_end.project import await_condition
from tests.fleet.gate import OnceTooMany, Slow, tiles_only

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.bad_input.small_site import Stage
    from tests.servers.misbehaving import Received

CONCURRENCY: Final = 3
REST: Final = 4
"""Seconds."""
NEWS: Final = 2.0
"""Seconds in which both processes have heard of it, on a busy machine too."""
NAMES: Final = ("small", "other")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as stage:
        stage.project.maps_file.unlink()
        for name in NAMES:
            stage.project.add_map(name, f"{stage.site.url}/", contact=f"{name}@example.net")
        with stage.project.maps_file.open("a") as file:
            file.write(f'[hosts."127.0.0.1"]\nconcurrency = {CONCURRENCY}\n')
        yield stage


def asked_for_tiles(stage: Stage, name: str) -> list[Received]:
    """By the harvest of that map, which names its contact."""
    return [
        request
        for request in stage.site.received
        if request.path.endswith(".png") and f"{name}@" in request.headers["User-Agent"]
    ]


def test_they_share_the_hosts_concurrency_and_its_retry_after(stage: Stage) -> None:
    slow = Slow(0.15)
    stage.site.rule_for_all = tiles_only(slow)
    one, two = (("harvest", name, "-a", f"day={FIRST_DAY}") for name in NAMES)
    with stage.project.running(*one) as first, stage.project.running(*two) as second:
        for name, process in zip(NAMES, (first, second), strict=True):
            assert await_condition(lambda name=name: len(asked_for_tiles(stage, name)) > 4, process)  # type: ignore[misc]
        stage.site.rule_for_all = too_many = OnceTooMany(REST, tiles_only(slow))
        for process in (first, second):
            process.communicate(timeout=60)
        assert [process.wait() for process in (first, second)] == [0, 0]
    assert slow.most == CONCURRENCY
    assert too_many.answered is not None
    since = [request.time - too_many.answered for request in stage.site.received]
    assert [seconds for seconds in since if NEWS < seconds < REST] == []
    for name in NAMES:
        after = [one for one in asked_for_tiles(stage, name) if one.time > too_many.answered + REST]
        assert len(after) > 0
        assert len({one.path for one in asked_for_tiles(stage, name)}) == len(PATHS)
