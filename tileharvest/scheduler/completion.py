"""When is a request completely processed? The one place that knows Scrapy's engine from inside.

Scrapy's scheduler interface has no word for it. In Scrapy 2.19 a request is through (its items have passed
the pipelines, its children are enqueued) exactly when the engine removes it from the set
`engine._slot.inprogress`; and the engine asks for the next request when `engine._slot.nextcall` is
scheduled. Should Scrapy gain a public `finish_request`, it takes this module's place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class _WatchedSet(set[Any]):
    """A set that tells of each element which leaves it."""

    def __init__(self, elements: set[Any], on_leave: Callable[[Any], None]) -> None:
        super().__init__(elements)
        self._on_leave = on_leave

    def remove(self, element: Any) -> None:
        super().remove(element)
        self._on_leave(element)


class EngineHook:
    """Calls back for each request that is completely processed, and makes the engine ask for requests.

    Raises RuntimeError where the engine is not as known: better no harvest than one whose requests are
    never finished.
    """

    def __init__(self, engine: Any, on_complete: Callable[[Any], None]) -> None:
        slot = getattr(engine, "_slot", None)
        nextcall = getattr(slot, "nextcall", None)
        if not isinstance(getattr(slot, "inprogress", None), set) or not hasattr(nextcall, "schedule"):
            raise RuntimeError(
                "this version of Scrapy keeps its requests in another place than engine._slot.inprogress:"
                " install the version that requirements.txt names"
            )
        assert slot is not None
        slot.inprogress = _WatchedSet(slot.inprogress, on_complete)
        self._slot = slot

    def wake(self) -> None:
        """Make the engine ask for a request soon; harmless when it closes."""
        if self._slot.closing is None:
            self._slot.nextcall.schedule()
