"""The pace of a spider that asks for no map: a person may set a rate, which each download slot keeps."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tileharvest.politeness.throttle import HORIZON, Limit, Reservation
from tileharvest.queue.settings import shared_throttle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import BaseSettings

    from tileharvest.maps.rates import Delay
    from tileharvest.politeness.throttle import Throttle
    from tileharvest.queue.redis.link import RedisLink

_logger = logging.getLogger(__name__)


class RateLimit:
    """The starts that this worker has reserved at each download slot. Without a rate everything may start.

    The starts of all workers together keep the rate. Tiles are not meant: their download handler asks the
    throttle for each of them.
    """

    def __init__(self, settings: BaseSettings) -> None:
        """The throttle that the settings name is opened when a rate is first set."""
        self._settings = settings
        self._throttle: Throttle | None = None
        self._link: RedisLink | None = None
        self._starts: dict[str, Reservation] = {}
        self.rate: Delay | None = None

    def set(self, rate: Delay | None) -> None:
        """Sets the gap between two starts, or lets everything start."""
        self.rate = rate
        self._starts.clear()

    async def reserve(self, slots: Iterable[str], now: float) -> None:
        """Reserves the next start at each of these slots that has none. Raises QueueError."""
        if self.rate is None:
            return
        if self._throttle is None:
            self._throttle, self._link = shared_throttle(self._settings)
            if self._link is not None:
                await self._link.open()
            await self._throttle.open()
        limit = Limit("by hand", self.rate.mean)
        for slot in slots:
            known = self._starts.get(slot)
            if known is None or (known.number == 0 and known.start - HORIZON <= now):
                self._starts[slot] = await self._throttle.reserve(slot, 1, [limit], now)

    def may_start(self, slot: str, now: float) -> bool:
        """Returns whether a request may start now."""
        known = self._starts.get(slot)
        return self.rate is None or (known is not None and known.number > 0 and known.start <= now)

    def start(self, slot: str) -> None:
        """Uses the start of a slot."""
        used = self._starts.pop(slot, None)
        if used is not None:
            _logger.debug("slot '%s' has its turn at %s", slot, used.start)

    def next_look(self, slots: Iterable[str], now: float) -> float | None:
        """Returns when any of these slots may start something, or is to be asked for again."""
        known = [self._starts[slot] for slot in slots if slot in self._starts]
        times = [one.start if one.number else one.start - HORIZON for one in known]
        return min((one for one in times if one > now), default=None)

    async def close(self) -> None:
        if self._throttle is not None:
            await self._throttle.close()
        if self._link is not None:
            await self._link.close()
