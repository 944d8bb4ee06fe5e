"""`scrapy queue NAME`: how far a map's harvest is, what waits in its queue, and who works on it."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tileharvest.courtesy_settings import courtesy_for
from tileharvest.figures import Activity, Figures, State, moment_in_words
from tileharvest.history.progress import progress_of
from tileharvest.map_command import MapCommand
from tileharvest.progress import in_words
from tileharvest.scheduler.gate import Reason
from tileharvest.scheduling import has_queue, is_being_harvested, open_beside
from tileharvest.terminal import write_json, write_line, write_table
from tileharvest.watching import NOTHING, WORKER_COLUMNS, look
from tileharvest.wiring import described_map, open_history_if_any

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.history.progress import HarvestProgress
    from tileharvest.watching import Overview


class Command(MapCommand):
    def short_desc(self) -> str:
        return (
            "Show how far a map's harvest is, what waits in its queue: pending per lane, delayed, leased,"
            " failed; and its workers"
        )

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        (name,) = args
        described_map(settings, name)
        overview = asyncio.run(_look(settings, name)) if has_queue(settings, name) else NOTHING
        progress = _progress(settings, name)
        figures = None if progress is None else _figures(settings, name, progress, overview)
        if opts.json:
            write_json({**overview.as_plain(), "harvest": _plain(progress, figures)})
            return
        if progress is None or figures is None:
            write_line("no harvest is running")
        else:
            write_line(f"{progress.day}: {in_words(figures)}")
        write_line("")
        _write(overview)


def _progress(settings: BaseSettings, name: str) -> HarvestProgress | None:
    history = open_history_if_any(settings)
    if history is None:
        return None
    with history:
        return progress_of(history, name)


def _figures(settings: BaseSettings, name: str, progress: HarvestProgress, overview: Overview) -> Figures:
    """As history and queue have it: what only a worker knows, as that the host is down, is not among it."""
    crew, paused = overview.crew, overview.directions.paused
    workers = int(is_being_harvested(settings, name)) if crew is None else len(crew.workers)
    if not workers:
        state = State(Activity.INTERRUPTED, paused_since=paused, stopped=progress.stopped)
        return Figures.of(progress, state)
    description = described_map(settings, name)
    courtesy, now = courtesy_for(settings, description), datetime.now(description.zone_info)
    reasons = {Reason.PAUSED} if paused is not None else set()
    if courtesy.gap_at(now) is None:
        reasons.add(Reason.QUIET)
    counts = overview.counts
    is_idle = counts.delayed > 0 and counts.leased == 0 and not any(counts.pending.values())
    state = State.of(
        reasons, is_idle=is_idle, paused_since=paused, quiet_until=moment_in_words(courtesy.quiet_until(now))
    )
    return Figures.of(progress, state, workers)


def _plain(progress: HarvestProgress | None, figures: Figures | None) -> dict[str, Any] | None:
    if progress is None or figures is None:
        return None
    return {"segment": progress.segment, "day": progress.day.isoformat(), **figures.as_plain()}


async def _look(settings: BaseSettings, name: str) -> Overview:
    async with open_beside(settings, name) as queue:
        return await look(queue, time.time())


def _write(overview: Overview) -> None:
    write_table(["requests", ">number"], overview.rows())
    if overview.crew is None:
        return
    write_line("")
    if overview.crew.workers:
        write_table(WORKER_COLUMNS, overview.crew.rows())
    else:
        write_line("no worker")
