from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run() -> Callable[[Any], Any]:
    """Runs a coroutine that never waits for anything. Errors come through."""

    def run(coroutine: Any) -> Any:
        with pytest.raises(StopIteration) as stopped:
            coroutine.send(None)
        return stopped.value.value

    return run
