"""Pruned harvests of imagined maps, held against full ones and against the site itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.walk.pruned_model import Harvest, History, Plan
from tests.walk.pruned_site import HOUR, Site, built, by_content, by_time_alone, by_time_and_size, leaf
from tileharvest.tiles.grid import Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.walk.pruned_site import File
    from tileharvest.tiles.versions import Image, Validator

FIRST = date(2021, 2, 13)
MANY = settings(max_examples=max(60, settings().max_examples))
"""At least 60 examples, and with `--all` as many as of other properties."""


@dataclass(frozen=True)
class Step:
    """The events between one harvest of a site and the next, and during the harvest."""

    leaves: dict[int, bool]
    """The changed leaves, by numbers modulo the leaves that the depth allows."""
    grows: bool = False
    restores: bool = False
    """Whether the site is put back to its state of some steps before."""
    cuts: int | None = None
    """The seed of a tile below which everything is removed."""
    failing: frozenset[int] = frozenset()
    """The seeds of tiles that fail, drawn from the existing ones."""
    kills: tuple[int, ...] = ()
    """The numbers of answers after which the harvest is killed."""
    breaks: str | None = None
    """The way in which the law is broken."""


def steps(*, breaks: tuple[str | None, ...] = (None,)) -> st.SearchStrategy[list[Step]]:
    one = st.builds(
        Step,
        leaves=st.dictionaries(st.integers(0, 1023), st.sampled_from([True, True, False]), max_size=4),
        grows=st.sampled_from([False] * 5 + [True]),
        restores=st.sampled_from([False] * 3 + [True]),
        cuts=st.sampled_from([None] * 5) | st.integers(0, 500),
        failing=st.frozensets(st.integers(0, 500), max_size=2),
        kills=st.lists(st.integers(1, 20), max_size=2).map(tuple),
        breaks=st.sampled_from(breaks),
    )
    return st.lists(one, min_size=3, max_size=7)


plans = st.builds(
    Plan,
    wish=st.sampled_from(["auto", "pruned"]),
    full_every=st.integers(3, 20),
    share=st.sampled_from([0.0, 0.1]),
    zooms=st.sampled_from([None, (-1, 0), (-4, -1)]),
)


def apply(step: Step, site: Site, random: Random) -> None:
    leaves = {leaf(number, site.depth): stays for number, stays in step.leaves.items()}
    if step.restores:
        site.restore()
        return
    if random.random() < 0.7:
        site.back_up()
    if step.cuts is not None:
        top = some(site.files, step.cuts)
        leaves |= {one: False for one in site.files if one.zoom == 0 and one.ancestor(-top.zoom) == top}
    if step.breaks is None:
        site.publish(leaves)
    elif step.breaks == "redated":
        site.publish(leaves)
        site.redate()
    else:
        site.publish_unlawfully(leaves, site.now if step.breaks == "frozen" else random.randrange(site.now))
    if step.grows and site.depth < 6:
        site.grow()


def some(tiles: Iterable[Tile], seed: int) -> Tile:
    there = sorted(tiles)
    return there[seed % len(there)] if there else Tile(0, 1, 1)


def failing(step: Step, site: Site) -> list[Tile]:
    return [some(site.files, seed) for seed in step.failing]


def kept(site: Site, plan: Plan) -> dict[Tile, Image]:
    """Returns the images that a history must have to be up to date."""
    coarsest, deepest = plan.zooms or (-99, 0)
    return {tile: file.image for tile, file in site.files.items() if coarsest <= tile.zoom <= deepest}


def harvest(history: History, site: Site, plan: Plan, day: int, random: Random) -> Harvest:
    """Runs a harvest from its beginning to its end."""
    done = Harvest(history, site, plan, FIRST + timedelta(days=day), random)
    done.run()
    return done


def rows(history: History) -> dict[Tile, list[tuple[date, Image | None, str | None]]]:
    """Returns the whole history, as far as a person sees it."""
    return {
        tile: [(day, one.image, one.validator.etag) for day, one in sorted(versions.items())]
        for tile, versions in history.versions.items()
    }


@MANY
@given(st.integers(2, 5), steps(), plans, st.integers(0, 2**32))
def test_histories_of_pruned_and_full_harvests_are_the_same_where_the_law_holds(depth, days, plan, seed):
    site, pruned, full = built(depth, Random(seed)), History(), History()
    fully = Plan("full", zooms=plan.zooms)
    for day, step in enumerate([Step({}), *days]):
        site.now += 24 * HOUR
        apply(step, site, Random(seed))
        for history, how in ((pruned, plan), (full, fully)):
            one = Harvest(
                history, site, how, FIRST + timedelta(days=day), Random(seed + day), failing(step, site)
            )
            for answers in step.kills:
                one.is_finished or one.run(answers) or one.kill()
            one.is_finished or one.run()
            if one.decision.is_pruned:
                event("pruned, something skipped" if one.tops else "pruned")
        assert rows(pruned) == rows(full)
        assert pruned.withdrawn is None


@MANY
@given(st.integers(2, 5), steps(), plans, st.integers(0, 2**32))
def test_nothing_is_missed_after_harvests_that_were_overtaken_by_the_next_days(depth, days, plan, seed):
    random = Random(seed)
    site, history = built(depth, random), History()
    for day, step in enumerate([Step({}), *days]):
        site.now += 24 * HOUR
        apply(step, site, random)
        one = Harvest(history, site, plan, FIRST + timedelta(days=day), random, failing(step, site))
        one.run(step.kills[0] if step.kills else None)
        if one.is_finished and not step.failing:
            assert history.present() == kept(site, plan)
    harvest(history, site, plan, len(days) + 1, random)
    assert history.present() == kept(site, plan)


@MANY
@given(st.integers(2, 5), steps(), plans, st.integers(0, 2**32))
def test_what_changes_during_a_harvest_is_found_by_the_next_one(depth, days, plan, seed):
    random = Random(seed)
    site, history = built(depth, random), History()
    harvest(history, site, plan, 0, random)
    for day, step in enumerate(days, start=1):
        site.now += 24 * HOUR
        one = Harvest(history, site, plan, FIRST + timedelta(days=2 * day), random, failing(step, site))
        for answers in step.kills or (5,):
            if one.is_finished or one.run(answers):
                break
            if random.random() < 0.5:
                one.kill()
            site.now += 1
            apply(replace(step, grows=False), site, random)
        if random.random() < 0.7:
            one.is_finished or one.run()
        harvest(history, site, plan, 2 * day + 1, random)
        assert history.present() == kept(site, plan)


BREAKS = (None, "frozen", "clock back", "redated")
SERVERS = st.sampled_from([by_time_and_size, by_content, by_time_alone])


@MANY
@given(st.integers(2, 5), steps(breaks=BREAKS), plans, SERVERS, st.integers(0, 2**32))
def test_full_walk_finds_all_that_was_missed_while_the_law_was_broken(depth, days, plan, says, seed):
    random = Random(seed)
    site, history = built(depth, random), History()
    site.says = says
    for day, step in enumerate([Step({}), *days]):
        site.now += 24 * HOUR
        apply(step, site, random)
        one = Harvest(history, site, plan, FIRST + timedelta(days=day), random, failing(step, site))
        one.run(step.kills[0] if step.kills else None)
        if one.is_finished and not one.decision.is_pruned and not step.failing:
            assert history.present() == kept(site, plan)
    harvest(history, site, plan, len(days) + plan.full_every, random)
    assert history.present() == kept(site, plan)


@MANY
@given(st.integers(2, 5), steps(breaks=BREAKS), plans, SERVERS, st.integers(0, 2**32))
def test_audit_of_everything_finds_what_breaks_the_law_in_the_same_harvest(depth, days, plan, says, seed):
    """Where all zooms are kept: of others nobody can tell whether a tile there is a new one."""
    random = Random(seed)
    site, history = built(depth, random), History()
    site.says = says
    plan.share, plan.zooms = 1.0, None
    for day, step in enumerate([Step({}), *days]):
        site.now += 24 * HOUR
        apply(step, site, random)
        one = Harvest(history, site, plan, FIRST + timedelta(days=day), random, failing(step, site))
        one.run(step.kills[0] if step.kills else None)
        if one.is_finished and not step.failing:
            assert history.present() == kept(site, plan)
            if one.decision.is_pruned and history.withdrawn:
                event("withdrawn")


def proved(says: Callable[[File], Validator] = by_time_and_size) -> tuple[Site, History]:
    """A site of depth 4, harvested on day 0, with three leaves in each family; the last one is the newest."""
    site, history = Site(4, says), History()
    for number in range(192):
        site.now += 60
        site.publish({leaf(number, 4): True})
    harvest(history, site, Plan(), 0, Random(1))
    return site, history


def test_audit_of_everything_finds_a_tile_that_was_added_where_nothing_above_was_touched():
    site, history = proved()
    site.publish_unlawfully({leaf(192, 4): True}, site.now)
    assert harvest(history, site, Plan(share=1.0), 1, Random(1)).decision.is_pruned
    assert history.present() == kept(site, Plan())


def test_what_lies_below_a_tile_that_changed_within_its_date_is_asked():
    """Only its size tells, and that is compared when its own outcome is found."""
    site, history = proved(by_time_alone)
    site.publish({leaf(2, 4): False})
    assert harvest(history, site, Plan(), 1, Random(1)).decision.is_pruned
    assert history.present() == kept(site, Plan())


@MANY
@given(st.integers(2, 6), steps(), st.integers(0, 2**32))
def test_requests_are_four_below_each_changed_tile_and_one_to_fetch_it(depth, days, seed):
    random = Random(seed)
    site, history, plan = built(depth, random), History(), Plan(full_every=99)
    harvest(history, site, plan, 0, random)
    for day, step in enumerate(days, start=1):
        site.now += 24 * HOUR
        before = dict(site.files)
        apply(step, site, random)
        changed = [tile for tile, file in site.files.items() if before.get(tile) != file]
        walked = [tile for tile in changed if tile.zoom < 0]
        removed = before.keys() - site.files.keys()
        one = harvest(history, site, plan, day, random)
        assert one.decision.is_pruned
        assert one.requests <= 4 + 4 * len(walked) + len(changed) + len(removed)


def test_day_without_changes_costs_the_four_tiles_of_the_first_level():
    site, history = built(5, Random(1)), History()
    harvest(history, site, Plan(), 0, Random(1))
    assert harvest(history, site, Plan(), 1, Random(1)).requests == 4


def drawn_anew(depth: int, leaves: Iterable[int], anew: Iterable[int]) -> tuple[int, int]:
    """Tiles changed where some of the leaves of a map are, and requests of the pruned harvest after it."""
    site, history = Site(depth), History()
    site.publish({leaf(number, depth): True for number in leaves})
    site.now += 24 * HOUR
    site.publish({leaf(0, depth): True})
    harvest(history, site, Plan(), 0, Random(1))
    site.now += 24 * HOUR
    changed = site.publish({leaf(number, depth): True for number in anew})
    after = harvest(history, site, Plan(), 1, Random(1))
    assert after.decision.is_pruned
    return len(changed), after.requests


@pytest.mark.parametrize("count", [1, 16, 64, 256])
def test_requests_for_changes_that_lie_together_stay_below_two_and_a_half_per_tile(count):
    # Neighbours differ in their last digits, which are the highest in the number.
    together = [int(f"{number:08b}"[::-1], 2) for number in range(count)]
    changed, requests = drawn_anew(4, range(256), together)
    assert requests <= 2.5 * changed + 8 * 4


def test_requests_for_changes_strewn_over_a_map_come_to_five_per_tile():
    """Each lies alone below tiles whose other three children have not changed, and are asked in vain."""
    changed, requests = drawn_anew(12, range(16), range(16))
    assert requests > 2.5 * changed + 8 * 12
    assert requests <= 5 * changed + 4
