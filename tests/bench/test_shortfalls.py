"""The bounds of the bench: a figure beyond one is a line, which ends it with a failure."""

from __future__ import annotations

from bench.harvest import LEAST_RATIO, MOST_MEMORY, shortfalls


def run(what: str, tiles: int, memory: float) -> dict[str, object]:
    return {"what": what, "tiles": tiles, "whole": {"rss": memory}}


def test_a_ratio_below_its_bound_is_one_line() -> None:
    (line,) = shortfalls({"ratio": {"ratio_by_cpu": LEAST_RATIO - 0.1, "runs": []}})
    assert line.startswith(f"too slow: {LEAST_RATIO - 0.1:.1f} times as fast as stock Scrapy by CPU")


def test_an_unchanged_harvest_that_holds_too_much_is_one_line() -> None:
    size = max(MOST_MEMORY)
    (line,) = shortfalls({"flat": {"runs": [run("unchanged", size + 1, MOST_MEMORY[size] + 1)]}})
    assert f"{size + 1:,} tiles took {MOST_MEMORY[size] + 1} MB" in line


def test_figures_within_their_bounds_are_no_line() -> None:
    runs = [run("unchanged", 21_844, 140), run("first", 21_844, 900), run("unchanged", 5_460, 900)]
    assert list(shortfalls({"ratio": {"ratio_by_cpu": LEAST_RATIO, "runs": runs}, "maps": {}})) == []
