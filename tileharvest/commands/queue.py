"""`tileharvest queue NAME`: what waits for a map or a spider, how far a harvest is, and who works on it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import QueueOwner, ask_history, queue_owner
from tileharvest.commands.terminal import table, table_of
from tileharvest.commands.workers import WORKER_COLUMNS
from tileharvest.history.summaries import progress_of
from tileharvest.maps.rates import rate_in_words
from tileharvest.monitoring.stats import HarvestStats, State, state_in_words
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.controls import Controls, controls_of
from tileharvest.queue.port import Counts, RequestQueue, Worker

_Found: TypeAlias = tuple[Counts, Controls, Sequence[Worker] | None]
"""What waits in a queue, the orders that hold, and the workers, whom only a shared queue knows."""


class Command(ProjectCommand):
    summary = "Show what waits in the queue of a map or a spider"
    details = "It shows requests by lane, how far the harvest is, and the workers."
    examples = ("my-server", "my-server --json")

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        progress, harvest = None, None
        if owner.description is not None:
            progress = ask_history(self.settings, lambda history: progress_of(history, owner.name))
        segment = None if progress is None else progress.segment
        nothing: _Found = (Counts(), Controls(), None)
        counts, controls, workers = owner.ask_if_any(lambda queue: _look(queue, segment), nothing)
        number = owner.workers if workers is None else len(workers)
        state, detail = State.INTERRUPTED, (progress and progress.stopped) or ""
        if number:
            state, detail = _state(owner, counts, controls.paused, has_begun=progress is not None)
        if progress is None:
            words = _without_stats(owner, state, detail)
        else:
            stats = HarvestStats.of(progress, state, detail, number)
            harvest = {"segment": progress.segment, "day": progress.day.isoformat(), **stats.as_plain()}
            words = f"{progress.day}: {stats.in_words}"
        orders = {
            "paused": controls.paused,
            "rate": None if controls.rate is None else rate_in_words(controls.rate),
        }
        listed = None if workers is None else [one.as_plain() for one in workers]
        rows = [[name, f"{number:,}"] for name, number in counts.as_plain().items()]
        words_of = {"paused": "paused since", "rate": "rate by hand"}
        rows += [[words_of[name], order] for name, order in orders.items() if order is not None]
        lines = [words, "", *table(["requests", ">number"], rows)]
        if listed is not None:
            lines += ["", *table_of(listed, WORKER_COLUMNS, "no worker")]
        return {**counts.as_plain(), "workers": listed, **orders, "harvest": harvest}, lines


async def _look(queue: RequestQueue, segment: str | None) -> _Found:
    """Returns what is in the queue, the orders, and the workers, whom only a shared queue knows."""
    return await queue.counts(segment), await controls_of(queue), await queue.workers()


def _without_stats(owner: QueueOwner, state: State, detail: str) -> str:
    """Returns the state in words if the history has no unfinished harvest.

    A harvest that begins is in the queue before it is in the history. A spider never is in the history.
    """
    if state is State.INTERRUPTED:
        return f"no {owner.run} is running"
    if owner.description is not None and state is State.BEGINNING:
        return "a harvest begins or ends"
    return f"{owner.run}: {state_in_words(state, detail) or 'running'}"


def _state(owner: QueueOwner, counts: Counts, paused: str | None, *, has_begun: bool) -> tuple[State, str]:
    """Returns the state of a harvest or a spider that is worked on, and its detail, as far as queue, history
    and clock know it.

    Only a worker knows more, for example that the host is down.
    """
    if paused is not None:
        return State.PAUSED, f"since {paused}"
    waits = counts.delayed > 0 and counts.leased == 0 and not any(counts.pending.values())
    if owner.description is None:
        return State.of(None, waits=waits), ""

    rules, now = rules_for(owner.settings, owner.description), datetime.now(owner.zone_info)
    if (until := rules.quiet_until(now)) is not None:
        return State.QUIET, f"until {until:%Y-%m-%d %H:%M %Z}"
    return State.of(None, has_begun=has_begun, waits=waits), ""
