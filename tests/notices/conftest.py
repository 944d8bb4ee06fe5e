from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest

from tests.notices.receiver import Posted, Receiver, receiver
from tests.viewer.building import MAP, World
from tileharvest.errors import TileHarvestError
from tileharvest.history.database import History
from tileharvest.notices.delivery import Target, Wishes
from tileharvest.notices.message import Report
from tileharvest.notices.notice import send_notice
from tileharvest.tiles.outcomes import Outcome


@pytest.fixture
def received() -> Iterator[Receiver]:
    with receiver() as listening:
        yield listening


@pytest.fixture
def told(received: Receiver) -> Callable[..., list[Posted]]:
    """A function that sends the notice of a harvest of that day, and returns the messages that came."""

    def told(
        world: World, day: date, error: TileHarvestError | None = None, *, url: str = "", **wishes: Any
    ) -> list[Posted]:
        report = Report(MAP, day, {Outcome.UPDATED: 1}, error)
        wished = Wishes((Target(received.address()),), **{"occasions": ("change", "failure"), **wishes})
        address = url or f"sqlite:///{world.history_file}"
        missed = send_notice(
            report,
            str(day),
            wished,
            lambda: History.open_read_only(address),
            lambda: world.store,
            20,
        )
        assert missed == []
        return received.posted

    return told
