"""A small fleet for three days, and the sums of the simulation. Each request is simulated by itself."""

from __future__ import annotations

from random import Random

import pytest

from bench.fleet_report import Report, too_full
from bench.fleet_simulation import FleetSimulation
from bench.simulated_sites import MEASURED, sites


@pytest.fixture(scope="module")
def report() -> Report:
    return FleetSimulation(maps=100, workers=3, days=3, seed=5).run()


def test_every_map_is_visited_in_its_segment(report: Report) -> None:
    assert report.visits > 100
    assert report.missed == []
    assert report.unfinished.keys() <= {"its budget was spent", "its site was down"}


def test_no_limit_is_exceeded(report: Report) -> None:
    assert report.windows > 1000
    assert (report.over_limit, report.over_concurrency, report.over_budget) == (0, 0, 0)


def test_workers_die_and_others_go_on(report: Report) -> None:
    assert report.deaths > 3
    assert report.taken_over > 0


def test_the_same_seed_gives_the_same_report(report: Report) -> None:
    assert FleetSimulation(maps=100, workers=3, days=3, seed=5).run() == report


def test_request_by_request_no_limit_is_exceeded_either() -> None:
    report = FleetSimulation(maps=20, workers=3, days=2, seed=2, quantum=0).run()
    assert report.visits > 10
    assert (report.over_limit, report.over_concurrency, report.over_budget) == (0, 0, 0)


@pytest.mark.parametrize(
    ("starts", "full"),
    [
        ([0.0, 0.5, 1.0, 1.5], 0),
        ([0.0, 0.5, 0.9, 1.5], 1),
        ([1.5, 0.9, 0.5, 0.0], 1),
        ([0.0, 0.1, 0.2, 0.3], 2),
    ],
)
def test_windows_with_more_than_two_starts_a_second_are_found(starts: list[float], full: int) -> None:
    assert too_full(starts, 1.0, 2) == full


def test_a_full_walk_asks_for_each_tile_and_for_what_has_changed() -> None:
    random = Random(1)
    site = next(one for one in sites(100, random, 0.0) if not one.measured.is_pruned)
    for _ in range(100):
        requests, changed = site.requests(random)
        assert requests == site.tiles + changed


def test_sites_are_as_large_as_the_measured_maps_or_some_levels_deeper() -> None:
    measured = {one.tiles for one in MEASURED}
    assert {one.tiles for one in sites(1000, Random(1), 120.0)} <= {
        tiles * 4**level for tiles in measured for level in range(4)
    }


def test_a_batch_takes_as_long_as_its_requests() -> None:
    site = next(one for one in sites(100, Random(1), 120.0) if one.pace.least)
    apart = max(site.pace.least / site.batch, site.answer)
    assert site.seconds(1, 1) == pytest.approx((site.batch - 1) * apart + site.answer)
    assert site.rate(1) == pytest.approx(1 / (site.batch * apart))
