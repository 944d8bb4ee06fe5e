"""A step of a program at which a test kills it."""

from __future__ import annotations

import os
import signal
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Step(NamedTuple):
    """A call of a function of a class or a module."""

    owner: Any
    function: str
    before: bool
    """Killed before the call, else after it."""
    is_meant: Callable[..., bool] = lambda *_, **__: True
    """Whether a call with these arguments counts: others may call the function, too."""


def kill_at(step: Step, passes: int) -> None:
    """Lets the call after `passes` others be the last thing that this process does."""
    original: Callable[..., Any] = getattr(step.owner, step.function)
    calls = count()

    def killing(*arguments: Any, **keywords: Any) -> Any:
        last = step.is_meant(*arguments, **keywords) and next(calls) == passes
        if last and step.before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(step.owner, step.function, killing)
