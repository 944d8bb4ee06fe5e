"""A step at which a program kills itself, for tests."""

import os
import signal
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple


class Step(NamedTuple):
    """A call of a function that belongs to a class or a module."""

    owner: Any
    function: str
    before: bool
    """True: the kill comes before the call. False: after it."""
    is_meant: Callable[..., bool] = lambda *_, **__: True
    """Returns whether a call with these arguments counts. It is asked at the moment of the kill."""


def kill_at(step: Step, passes: int) -> None:
    """Lets this process kill itself at the step, after the step has passed so many times."""
    original: Callable[..., Any] = getattr(step.owner, step.function)
    calls = count()

    def kill_if_last(*arguments: Any, **keywords: Any) -> None:
        if step.is_meant(*arguments, **keywords) and next(calls) == passes:
            os.kill(os.getpid(), signal.SIGKILL)

    def killing(*arguments: Any, **keywords: Any) -> Any:
        if step.before:
            kill_if_last(*arguments, **keywords)
        result = original(*arguments, **keywords)
        if not step.before:
            kill_if_last(*arguments, **keywords)
        return result

    setattr(step.owner, step.function, killing)
