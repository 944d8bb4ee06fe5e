"""Pruned harvests of imagined maps, held against full ones and against the site itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from random import Random
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.walk.test_proof import dated
from tileharvest.tiles.block import bit_of, blocks_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.decision import decide
from tileharvest.walk.proof import Proof, prove
from tileharvest.walk.walk import IN_FULL, LATE, ON_WALK, Asked, Mark, Walk

FIRST = date(2021, 2, 13)
HOUR = 3600
MANY = settings(max_examples=max(60, settings().max_examples))


@dataclass
class Site:
    """A pyramid of files on a server: of each the number of its drawing, and its time in seconds."""

    depth: int
    files: dict[Tile, tuple[int, int]] = field(default_factory=dict)
    now: int = 0
    _drawings: Iterator[int] = field(default_factory=lambda: count(1))

    def says(self, tile: Tile) -> Validator:
        """As nginx does: the ETag is made of time and size."""
        drawing, time = self.files[tile]
        moment = datetime(2021, 2, 13, tzinfo=UTC) + timedelta(seconds=time)
        return Validator(f'"{time:x}-{drawing:x}"', format_datetime(moment, usegmt=True))

    def leaf(self, number: int) -> Tile:
        side = 1 << self.depth
        return Tile.at(0, number % side - side // 2, number // side % side - side // 2)

    def above(self, tile: Tile) -> Iterator[Tile]:
        return (tile.ancestor(levels) for levels in range(1, self.depth + tile.zoom))

    def publish(self, leaves: Mapping[int, bool], *, is_lawful: bool = True) -> None:
        """Leaves are drawn anew or (False) removed, and all above them drawn anew. Unlawfully, tiles above
        are drawn only if they are missing."""
        touched = {self.leaf(number): stays for number, stays in leaves.items()}
        for leaf, stays in touched.items():
            self._draw(leaf, [self.now] if stays else [])
        for tile in sorted({one for leaf in touched for one in self.above(leaf)}, reverse=True):
            times = [self.files[child][1] for child in tile.children() if child in self.files]
            if is_lawful or (tile not in self.files and times):
                self._draw(tile, times)

    def _draw(self, tile: Tile, times: list[int]) -> None:
        """Draws a tile with the newest of these times, or removes it if there are none."""
        self.files.pop(tile, None)
        if times:
            self.files[tile] = next(self._drawings), max(times)


@dataclass
class History:
    """The state that outlives a harvest."""

    present: dict[Tile, Validator] = field(default_factory=dict)
    marks: dict[Tile, Mark] = field(default_factory=dict)
    trusted: set[Tile] = field(default_factory=set)
    proof: Proof | None = None
    last_full: date | None = None


@dataclass
class Harvest:
    """One harvest, from its beginning to its end."""

    history: History
    site: Site
    day: int
    wish: Literal["auto", "full", "pruned"] = "auto"
    share: float = 0.0
    failing: frozenset[Tile] = frozenset()
    found: dict[Tile, Outcome] = field(default_factory=dict)
    tops: set[Tile] = field(default_factory=set)

    def run(self) -> bool:
        """Returns whether the walk was pruned."""
        history, day = self.history, FIRST + timedelta(days=self.day)
        decision = decide(self.wish, history.proof, history.last_full, day, 7)
        self.is_pruned, self.walk = decision.is_pruned, Walk(Pyramid(self.site.depth))
        self.ask(self.walk.start())
        while left := [tile for tile in history.present if not (tile in self.found or self.is_spared(tile))]:
            self.ask(left, LATE)
        if self.is_pruned and self.share:
            spared = blocks_of("", filter(self.is_spared, history.present))
            audit = self.walk.audit(spared, blocks_of("", self.tops), self.share, str(self.day))
            known = dict(history.present)
            self.ask(audit.tiles, Asked(late=True, audited=True))
            if audit.broken({tile: self.found[tile] for tile in audit.tiles}):
                self.is_pruned, history.proof = False, None
                again = self.tops.union(audit.tiles)
                self.tops.clear()
                self.ask([below for tile in again if tile.zoom for below in tile.children()], IN_FULL)
                self.ask([tile for tile in known if tile not in self.found], LATE)
        self.finish(day, is_full=not decision.is_pruned)
        return decision.is_pruned

    def is_spared(self, tile: Tile) -> bool:
        return tile not in self.found and any(above in self.tops for above in self.site.above(tile))

    def ask(self, tiles: Iterable[Tile], asked: Asked = ON_WALK) -> None:
        waiting, history = [(tile, asked) for tile in tiles], self.history
        while waiting:
            tile, how = waiting.pop()
            if tile in self.found:
                continue
            known, is_there = history.present.get(tile), tile in self.site.files
            seen = self.site.says(tile) if is_there else Validator()
            if tile in self.failing:
                outcome = Outcome.FAILED
            elif is_there:
                outcome = Outcome.IGNORED if known == seen else Outcome.UPDATED if known else Outcome.ADDED
            else:
                outcome = Outcome.GONE if known else Outcome.NOTHING
            self.found[tile] = outcome
            (block,), bit = blocks_of("day", [tile]), bit_of(tile)
            marks = {bit: history.marks[tile]} if tile in history.marks else {}
            told, skips, _ = self.walk.steps(
                block,
                {outcome: block.mask},
                {bit: Answer(200 if is_there else 404, seen)},
                marks,
                (tile in history.trusted) << bit,
                how,
                is_pruned=self.is_pruned,
            )
            if outcome is not Outcome.FAILED:
                history.present.pop(tile, None)
                history.present |= {tile: seen} if is_there else {}
            if skips:
                self.tops.add(tile)
            elif is_there or (outcome is Outcome.FAILED and known):
                waiting += [(child, how.below) for child in self.walk.below(tile)]
            for one in told.values():
                history.marks[tile] = one.etag, one.last_modified
                history.trusted.add(tile)

    def finish(self, day: date, *, is_full: bool) -> None:
        history = self.history
        failed = {tile for tile, outcome in self.found.items() if outcome is Outcome.FAILED}
        history.trusted -= failed.union(*(self.site.above(tile) for tile in failed))
        if is_full:
            times = {tile: said.last_modified for tile, said in history.present.items()}
            history.proof, history.last_full = prove(dated(times), day), day


def shown(site: Site) -> dict[Tile, Validator]:
    return {tile: site.says(tile) for tile in site.files}


def built(depth: int, seed: int) -> Site:
    """A site of some renders, hours apart."""
    site, random = Site(depth), Random(seed)
    for _ in range(4):
        site.now += 5 * HOUR
        site.publish({random.randrange(1024): True for _ in range(8)})
    return site


changes = st.dictionaries(st.integers(0, 1023), st.sampled_from([True, True, False]), max_size=4)
depths, seeds = st.integers(2, 5), st.integers(0, 2**32)
wishes, shares = st.sampled_from(["auto", "pruned"]), st.sampled_from([0.0, 1.0])


@MANY
@given(
    depths, st.lists(st.tuples(changes, st.sets(st.integers(0, 500), max_size=2)), max_size=7), wishes, seeds
)
def test_pruned_harvests_find_what_full_ones_do_where_the_law_holds(depth, days, wish, seed):
    site, history = built(depth, seed), History()
    for day, (leaves, failures) in enumerate([({}, set()), *days, ({}, set())]):
        site.now += 24 * HOUR
        site.publish(leaves)
        there = sorted(site.files)
        failing = frozenset(there[number % len(there)] for number in failures if there)
        Harvest(history, site, day, wish, failing=failing).run()
        if not failing:
            assert history.present == shown(site)


@MANY
@given(depths, st.lists(st.tuples(changes, st.booleans()), max_size=7), wishes, seeds, shares)
def test_a_full_walk_or_audit_finds_what_was_missed_where_the_law_was_broken(depth, days, wish, seed, share):
    site, history = built(depth, seed), History()
    for day, (leaves, is_lawful) in enumerate([({}, True), *days]):
        site.now += 24 * HOUR
        site.publish(leaves, is_lawful=is_lawful)
        if not Harvest(history, site, day, wish, share).run() or share:
            assert history.present == shown(site)
    assert not Harvest(history, site, len(days) + 8, wish).run()
    assert history.present == shown(site)
