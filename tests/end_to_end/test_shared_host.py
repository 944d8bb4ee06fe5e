"""Two maps of one host, harvested at once by two processes: what the owner allows, they get together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, staged
from tests.end_to_end.project import await_condition
from tests.fleet.gate import Gate, OnceTooMany, Slow, tiles_only

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aiohttp import web

    from tests.end_to_end.bad_input.small_site import Stage
    from tests.servers.misbehaving import Exchange, Received

CONCURRENCY: Final = 3
REST: Final = 10
"""Seconds."""
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


def asked(stage: Stage, name: str) -> list[Received]:
    """By the harvest of that map, which names its contact."""
    return [one for one in stage.site.received if f"{name}@" in one.headers["User-Agent"]]


def asked_for_tiles(stage: Stage, name: str) -> list[Received]:
    return [one for one in asked(stage, name) if one.path.endswith(".png")]


def test_they_share_the_hosts_concurrency_and_its_retry_after(stage: Stage) -> None:
    slow, gate = Slow(0.15), Gate(keeps_all=True)

    async def at_once(exchange: Exchange) -> web.StreamResponse:
        """Keeps what comes before the tiles until both have begun, however long a program takes to start."""
        return await (slow if exchange.path.endswith(".png") else gate)(exchange)

    stage.site.rule_for_all = at_once
    one, two = (("harvest", name, "-a", f"day={FIRST_DAY}") for name in NAMES)
    with stage.project.running(*one) as first, stage.project.running(*two) as second:
        harvests = tuple(zip(NAMES, (first, second), strict=True))
        for name, process in harvests:
            assert await_condition(lambda name=name: len(asked(stage, name)) > 0, process)  # type: ignore[misc]
        gate.open()
        for name, process in harvests:
            assert await_condition(lambda name=name: len(asked_for_tiles(stage, name)) > 4, process)  # type: ignore[misc]
        stage.site.rule_for_all = too_many = OnceTooMany(REST, tiles_only(slow))
        # What was on the way waits for its answer, until both have said that they let the host rest.
        for process in (first, second):
            assert "asked to be left alone" in process.stderr.readline()
        before = len(stage.site.received)
        too_many.go_on()
        for process in (first, second):
            process.communicate(timeout=240)
        assert [process.wait() for process in (first, second)] == [0, 0]
    assert slow.most == CONCURRENCY
    assert too_many.answered is not None
    assert not [one for one in stage.site.received[before:] if one.time < too_many.answered + REST]
    for name in NAMES:
        after = [one for one in asked_for_tiles(stage, name) if one.time > too_many.answered + REST]
        assert len(after) > 0
        assert len({one.path for one in asked_for_tiles(stage, name)}) == len(PATHS)
