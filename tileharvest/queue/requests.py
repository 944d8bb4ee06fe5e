"""The meta of a request: orders that any spider may give, and the state of the request's attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tileharvest.tiles.questions import TileQuestion
    from tileharvest.tiles.results import TileResult

NOT_BEFORE: Final = "not_before"
"""Key of meta, an order: seconds since 1970 before which the request is not offered."""
DELAY: Final = "delay"
"""Key of meta, an order: the seconds, or the least and the most seconds, from the start of the request before
it to its own start."""
FAILURE: Final = "failure"
"""Key of meta, an order: the reason for which the request goes to the failure list when it is through."""
NEAR: Final = "near"
"""Key of meta: the IP addresses of the map's own host. A request that was redirected to another site is sent
only into the internet, or into a network to which one of these addresses belongs."""
STATE: Final = "tileharvest"
"""Key of meta: the RequestState."""

PUSHED: Final = ""
"""The segment of requests that a person has pushed. It never ends, so they wait until they are made."""


@dataclass(slots=True)
class RequestState:
    """The facts about a request that Scrapy does not know.

    A queue keeps the question only; all else belongs to one attempt. A request that takes the place of
    another one, such as a repeat or the GET after a HEAD, shares the other's state until it is offered
    itself.
    """

    question: TileQuestion | None = None
    """None for a request that asks for no tile."""
    attempt: int = 0
    """The number of this attempt, from 1 on. 0 for a request that our scheduler has not offered."""
    is_aside: bool = False
    """Whether the request waits for its turn beside the queue, as requests that probe a site do."""
    was_sent: bool = True
    """False for a request that was never sent and has cost nothing."""
    result: TileResult | None = None
    """The result for the tile. None before there is one."""
    known: bool = False
    """Whether the history has the tile. After a failure: whether it has any tile below."""
    answer: Any = None
    """The response to it, or the exception in its place, that came before Scrapy's engine was given the
    request: it is not sent. None once a middleware has passed it on."""


def state_of(request: Any) -> RequestState:
    """Returns the state of a Scrapy request. A request without a state gets one."""
    meta = request.meta
    if STATE not in meta:
        meta[STATE] = RequestState()
    state: RequestState = meta[STATE]
    return state


def question_of(request: Any) -> TileQuestion | None:
    """Returns what a Scrapy request asks of a tile, or None if it asks for no tile."""
    state: RequestState = request.meta.get(STATE, _NONE)
    return state.question


def is_offered(request: Any) -> bool:
    """Returns whether our scheduler has offered a Scrapy request. False for one that was made beside it."""
    state: RequestState = request.meta.get(STATE, _NONE)
    return state.attempt > 0


_NONE: Final = RequestState()
"""The state of a request that has none. Nobody writes into it."""
