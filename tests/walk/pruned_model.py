"""A history and its harvests, imagined: to hold the pruned walk against the full one.

Every decision is one of the room `walk` or of `verdict`; what is imagined is the order in which
answers come, what a kill leaves, and what is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from tests.walk.dated import dated
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.questions import Asked
from tileharvest.tiles.verdict import Answer, Verdict, judge_head
from tileharvest.tiles.versions import Image, Validator, Version
from tileharvest.walk.audit import audited, breaks_law
from tileharvest.walk.decision import Decision, decide
from tileharvest.walk.proof import Proof, prove
from tileharvest.walk.trust import Mark
from tileharvest.walk.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date
    from random import Random

    from tests.walk.pruned_site import File, Site
    from tileharvest.tiles.grid import Tile
    from tileharvest.tiles.results import Step


@dataclass(frozen=True)
class Row:
    """The mark of a tile for the walk."""

    validator: Validator
    harvest: int
    is_whole: bool = False


@dataclass
class History:
    """The state that outlives a harvest."""

    versions: dict[Tile, dict[date, Version]] = field(default_factory=dict)
    rows: dict[Tile, Row] = field(default_factory=dict)
    proof: Proof | None = None
    withdrawn: str | None = None
    last_full: date | None = None
    harvests: int = 0

    def latest(self, tile: Tile) -> Version | None:
        versions = self.versions.get(tile)
        return versions[max(versions)] if versions else None

    def present(self) -> dict[Tile, Image]:
        """Returns the existing tiles by their latest versions."""
        latest = {tile: self.latest(tile) for tile in self.versions}
        return {tile: one.image for tile, one in latest.items() if one is not None and one.image is not None}

    def stored(self, day: date) -> Proof | None:
        """Returns the stored proof, or None. Its day does not matter here."""
        if self.proof is None and self.withdrawn is None:
            return None
        return replace(self.proof or Proof(day, 0, 0, 0, 0.0), withdrawn=self.withdrawn)

    def mark(self, tile: Tile) -> Mark | None:
        row = self.rows.get(tile)
        return row and Mark(row.validator.etag, row.validator.last_modified, row.is_whole)

    def distrust(self, tiles: Iterable[Tile]) -> None:
        for tile in tiles:
            if tile in self.rows:
                self.rows[tile] = replace(self.rows[tile], is_whole=False)


@dataclass(frozen=True)
class Result:
    tile: Tile
    outcome: Outcome
    version: Version | None
    step: Step


@dataclass
class Plan:
    """The settings of a map's harvests."""

    wish: str = "auto"
    full_every: int = 7
    share: float = 0.0
    least: int = 0
    zooms: tuple[int, int] | None = None


class Harvest:
    """One harvest. Answers come in random order; what was answered is durable some answers later."""

    def __init__(
        self,
        history: History,
        site: Site,
        plan: Plan,
        day: date,
        random: Random,
        failing: Iterable[Tile] = (),
    ) -> None:
        history.harvests += 1
        self.decision: Decision = decide(
            plan.wish, history.stored(day), history.last_full, day, plan.full_every
        )
        self.requests = 0
        self.results: dict[Tile, Outcome] = {}
        self.tops: set[Tile] = set()
        self.is_finished = False
        self._prunes = self.decision.is_pruned
        self._history, self._site, self._plan, self._day, self._random = history, site, plan, day, random
        self._number = history.harvests
        self._failing = frozenset(failing)
        self._walk = Walk(Pyramid(site.depth), plan.zooms)
        self._asked: set[Tile] = set()
        self._audited: dict[Tile, bool] | None = None
        """Tiles, each with whether it was known."""
        self._unwritten: list[Result] = []
        self._queue: list[tuple[Tile, bool]] = [(tile, True) for tile in self._walk.start()]

    def run(self, answers: int | None = None) -> bool:
        """Runs the harvest for at most this many answers. Returns whether it is finished."""
        steps = count() if answers is None else range(answers)
        for _ in steps:
            if not self._queue and not self._ask_for_more():
                self._finish()
                return True
            self._answer(*self._queue.pop(self._random.randrange(len(self._queue))))
            while self._unwritten and self._random.random() < 0.5:
                self._write(self._unwritten.pop(self._random.randrange(len(self._unwritten))))
        return False

    def kill(self) -> None:
        """Kills the harvest. Answers that were not durable are asked again; the tiles to which they led stay
        in the queue."""
        self._queue += [(result.tile, False) for result in self._unwritten]
        self._unwritten.clear()

    def _answer(self, tile: Tile, is_on_walk: bool) -> None:
        if is_on_walk and tile in self._asked:
            return
        self._asked.add(tile)
        file = self._site.files.get(tile)
        seen = Validator() if file is None else self._site.says(file)
        outcome, version = self._judge(tile, file, seen)
        mark = self._history.mark(tile)
        is_audited = self._audited is not None and tile in self._audited
        asked = Asked(late=is_audited or not is_on_walk, audited=is_audited and self._prunes)
        answer = Answer(404 if file is None else 200, seen)
        step = self._walk.step(tile, outcome, answer, mark, asked, is_pruned=self._prunes)
        if not step.skips:
            self._go_below(tile, outcome)
        self._unwritten.append(Result(tile, outcome, version, step))

    def _judge(self, tile: Tile, file: File | None, seen: Validator) -> tuple[Outcome, Version | None]:
        self.requests += 1
        latest = self._history.latest(tile) if tile.zoom in self._walk.kept_zooms else None
        if tile in self._failing:
            return Outcome.FAILED, None
        if file is None:
            return (Outcome.NOTHING if latest is None or latest.gone else Outcome.GONE), None
        if tile.zoom not in self._walk.kept_zooms:
            return Outcome.IGNORED, None
        if isinstance(judge_head(Answer(200, seen, file.image.size), latest), Verdict):
            return Outcome.IGNORED, None
        self.requests += 1
        return self._fetched(latest, Version(self._day, file.image, seen))

    def _fetched(self, latest: Version | None, now: Version) -> tuple[Outcome, Version]:
        if latest is None or latest.gone:
            return Outcome.ADDED, now
        if latest.image == now.image:
            return Outcome.NOT_MODIFIED, msgspec.structs.replace(now, day=latest.day)
        return (Outcome.REPLACED if latest.day == self._day else Outcome.UPDATED), now

    def _go_below(self, tile: Tile, outcome: Outcome) -> None:
        known = outcome is Outcome.FAILED and any(
            tile == one or _is_below(one, {tile}) for one in self._history.present()
        )
        self._queue += [(child, True) for child in self._walk.below(tile, outcome, known=known)]

    def _write(self, result: Result) -> None:
        history, tile = self._history, result.tile
        self.results[tile] = result.outcome
        if result.step.skips:
            self.tops.add(tile)
        if result.version is not None:
            history.versions.setdefault(tile, {})[result.version.day] = result.version
        if result.step.seen is not None:
            history.rows[tile] = Row(result.step.seen, self._number)
        if result.outcome is Outcome.FAILED or result.outcome.makes_version:
            # What was remembered above a change may come back with the state before it.
            history.distrust(self._site.above(tile))
        if result.step.doubts:
            history.distrust([tile, *self._site.above(tile)])
        if result.outcome is Outcome.FAILED:
            history.distrust([tile])

    def _ask_for_more(self) -> bool:
        """Adds tiles when the queue is empty: those that the walk has not reached, then the audit's. Returns
        whether there were any."""
        while self._unwritten:
            self._write(self._unwritten.pop())
        known = self._history.present()
        unreached = [tile for tile in known if tile not in self.results and not _is_below(tile, self.tops)]
        if unreached:
            self._queue += [(tile, False) for tile in unreached]
        elif self._prunes and self._audited is None:
            self._draw_audit(known)
        elif self._prunes and self._is_law_broken():
            self._repair()
        return bool(self._queue)

    def _draw_audit(self, present: Iterable[Tile]) -> None:
        walk = self._walk
        known = {tile for tile in present if _is_below(tile, self.tops)}
        # Of zooms that are not kept only what is remembered is known: nobody can tell what was added there.
        above = {tile.parent() for tile in known if tile.zoom == walk.coarsest > walk.top}
        empty = {
            below
            for tile in known | self.tops | above
            for below in walk.below(tile, Outcome.IGNORED, known=True)
            if below not in known and below.zoom in walk.kept_zooms
        }
        plan, candidates = self._plan, sorted((known | empty) - self.results.keys())
        drawn = audited(lambda: candidates, plan.share, plan.least, str(self._number))
        self._audited = {tile: tile in known for tile in drawn}
        self._queue += [(tile, True) for tile in drawn]

    def _is_law_broken(self) -> bool:
        audited_tiles = (self._audited or {}).items()
        return any(breaks_law(self.results[tile], is_known=is_known) for tile, is_known in audited_tiles)

    def _repair(self) -> None:
        """Withdraws all trust because the law does not hold, and asks everything that was spared."""
        self._history.withdrawn = "a change was found where none could be"
        self._history.distrust(list(self._history.rows))
        self._prunes = False
        for tile in self.tops | (self._audited or {}).keys():
            self._go_below(tile, self.results[tile])
        self.tops.clear()

    def _finish(self) -> None:
        history = self._history
        failed = {tile for tile, outcome in self.results.items() if outcome is Outcome.FAILED}
        doubtful = failed | {above for tile in failed for above in self._site.above(tile)}
        for tile, row in history.rows.items():
            if row.harvest == self._number:
                history.rows[tile] = replace(row, is_whole=tile not in doubtful)
        missing = {
            tile for tile, outcome in self.results.items() if outcome in {Outcome.NOTHING, Outcome.GONE}
        }
        for tile, row in history.rows.items():
            # Where nobody asks, below a missing tile, something may come back as it was.
            if missing and _is_below(tile, missing):
                history.rows[tile] = replace(row, validator=Validator())
        for tile in missing:
            if self.results[tile] is Outcome.GONE:
                history.versions[tile][self._day] = Version(self._day, None)
        if not self.decision.is_pruned:
            history.last_full, history.withdrawn = self._day, None
            history.proof = prove(dated(self._times()), self._day)
        self.is_finished = True

    def _times(self) -> dict[Tile, str | None]:
        there = {tile: row.validator for tile, row in self._history.rows.items()}
        return {tile: said.last_modified for tile, said in there.items() if said != Validator()}


def _is_below(tile: Tile, tops: set[Tile]) -> bool:
    return any(tile.ancestor(levels) in tops for levels in range(1, 12))
