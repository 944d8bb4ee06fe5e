"""A launcher for scrapyd in a container, where processes that outlive it are killed."""

from __future__ import annotations

from typing import Any

from scrapyd.launcher import Launcher  # type: ignore[import-untyped]
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ProcessExitedAlready


class TidyLauncher(Launcher):  # type: ignore[misc]
    """A launcher that stops the jobs when scrapyd stops, and waits until they have given their work back.

    scrapyd's own launcher leaves them running, which is right outside of a container.
    """

    def stopService(self) -> Deferred[list[tuple[bool, Any]]]:  # noqa: N802 -- Twisted's name
        super().stopService()
        jobs = list(self.processes.values())
        for job in jobs:
            try:
                job.transport.signalProcess("TERM")
            except ProcessExitedAlready:
                continue
        return DeferredList([job.deferred for job in jobs])
