"""`scrapy queue NAME`: what waits for a map or a spider, how far a harvest is, and who works on it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand

from tileharvest.commands.display import in_words, state_in_words
from tileharvest.commands.map_command import MapCommand
from tileharvest.commands.settings import ask_history, queue_owner
from tileharvest.commands.terminal import write_json, write_line, write_rows, write_table
from tileharvest.commands.workers import NO_WORKER, WORKER_COLUMNS
from tileharvest.history.summaries import progress_of
from tileharvest.monitoring.figures import Activity, Figures, State, moment_in_words
from tileharvest.monitoring.overview import NOTHING, look
from tileharvest.politeness.reasons import Reason
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.settings import workers_on

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.commands.settings import QueueOwner
    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.monitoring.overview import Overview


class Command(MapCommand, ScrapyCommand):
    summary = (
        "Show what waits in the queue of a map or a spider: pending per lane, delayed, leased, failed;"
        " how far the harvest is; and the workers"
    )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        owner = queue_owner(settings, name)
        overview = owner.ask_if_any(lambda queue: look(queue, time.time()), NOTHING)
        progress = None
        if owner.description is not None:
            progress = ask_history(settings, lambda history: progress_of(history, name))
        workers = _workers(settings, name, overview)
        state = _state(settings, owner, overview, has_begun=progress is not None) if workers else None
        figures = None if progress is None else _figures(progress, overview, state, workers)
        if opts.json:
            write_json({**overview.as_plain(), "harvest": _plain(progress, figures)})
            return
        if progress is None or figures is None:
            write_line(_without_figures(owner, state))
        else:
            write_line(f"{progress.day}: {in_words(figures)}")
        write_line("")
        _write(overview)


def _without_figures(owner: QueueOwner, state: State | None) -> str:
    """Says how it stands while the history has no unfinished harvest. It gets one later than the queue, and
    none of a spider."""
    if owner.description is None:
        words = "is not running" if state is None else ", ".join(state_in_words(state)) or "is running"
        return f"{owner.in_words}: {words}"
    if state is None:
        return "no harvest is running"
    if state.activity is Activity.BEGINNING:
        return "a harvest begins or ends"
    return f"a harvest waits: {', '.join(state_in_words(state))}"


def _workers(settings: BaseSettings, name: str, overview: Overview) -> int:
    crew = overview.crew
    return workers_on(settings, name) if crew is None else len(crew.workers)


def _state(settings: BaseSettings, owner: QueueOwner, overview: Overview, *, has_begun: bool) -> State:
    """Returns the state of a harvest or a spider that is worked on, as queue and clock tell it.

    Only a worker knows, for example, that the host is down.
    """
    paused = overview.orders.paused
    reasons = {Reason.PAUSED} if paused is not None else set()
    counts = overview.counts
    is_idle = counts.delayed > 0 and counts.leased == 0 and not any(counts.pending.values())
    if owner.description is None:
        return State.of(reasons, is_idle=is_idle, paused_since=paused)
    rules, now = rules_for(settings, owner.description), datetime.now(owner.zone_info)
    if rules.gap_at(now) is None:
        reasons.add(Reason.QUIET)
    quiet_until = moment_in_words(rules.quiet_until(now))
    return State.of(
        reasons, has_begun=has_begun, is_idle=is_idle, paused_since=paused, quiet_until=quiet_until
    )


def _figures(progress: HarvestSummary, overview: Overview, state: State | None, workers: int) -> Figures:
    """Returns the figures. If there is no state, nobody works on the harvest."""
    if state is not None:
        return Figures.of(progress, state, workers)
    paused = overview.orders.paused
    return Figures.of(progress, State(Activity.INTERRUPTED, paused_since=paused, stopped=progress.stopped))


def _plain(progress: HarvestSummary | None, figures: Figures | None) -> dict[str, Any] | None:
    if progress is None or figures is None:
        return None
    return {"segment": progress.segment, "day": progress.day.isoformat(), **figures.as_plain()}


def _write(overview: Overview) -> None:
    write_table(["requests", ">number"], overview.rows())
    if overview.crew is not None:
        write_line("")
        write_rows(overview.crew.as_plain(), WORKER_COLUMNS, as_json=False, otherwise=NO_WORKER)
