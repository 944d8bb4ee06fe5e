"""Maps that several workers were asked for: what a worker leaves to the others when it ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrapy.settings import Settings

from tileharvest.commands import shared_maps
from tileharvest.commands.shared_maps import SharedMaps
from tileharvest.queue.locks import locks_in
from tileharvest.queue.map_leases import MapLeases
from tileharvest.queue.map_table import MapLease
from tileharvest.queue.shared_states import StateFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class UnansweredLeases(MapLeases):
    """Nobody answers that a map was released."""

    async def release(self, name: str, now: float) -> None:
        await asyncio.Event().wait()


def test_a_release_that_is_on_its_way_ends_before_the_leases_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would ask what is closed. All is left to others all the same."""
    leases = UnansweredLeases(StateFile(tmp_path / "hosts"), queues=locks_in(tmp_path))
    monkeypatch.setattr("tileharvest.queue.settings.map_leases", lambda settings: leases)
    monkeypatch.setattr(shared_maps, "GRACE", 0.0)

    async def test() -> None:
        shared = SharedMaps(Settings())
        await leases.open()
        assert await leases.acquire(["world"], 0.0) is not None
        shared.leave("world")
        await asyncio.sleep(0)
        await shared.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        others = MapLeases(StateFile(tmp_path / "hosts"), queues=locks_in(tmp_path))
        await others.open()
        assert await others.acquire(["world"], 0.0) is not None
        await others.close(0.0)

    asyncio.run(test())


def test_a_release_that_is_on_its_way_counts_when_its_worker_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = MapLeases(StateFile(tmp_path / "hosts"), queues=locks_in(tmp_path))
    monkeypatch.setattr("tileharvest.queue.settings.map_leases", lambda settings: leases)

    async def test() -> None:
        shared = SharedMaps(Settings(), lambda: datetime.fromtimestamp(10.0, UTC))
        await shared.open()
        await leases.acquire(["world"], 0.0)
        await leases.fail("world", 10.0, 0.0)
        assert await leases.acquire(["world"], 10.0) == MapLease("world", 1)
        shared.leave("world")
        await shared.close()
        others = MapLeases(StateFile(tmp_path / "hosts"), queues=locks_in(tmp_path))
        await others.open()
        assert await others.acquire(["world"], 10.0) == MapLease("world", 0)
        await others.close(10.0)

    asyncio.run(test())
