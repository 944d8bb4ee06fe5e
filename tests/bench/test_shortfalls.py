"""The bounds of the bench: a figure beyond one is a line, which ends it with a failure."""

from pathlib import Path

import pytest

from bench.cost import RunFailedError, cores, on_core, run
from bench.harvest import LEAST_RATIO, MOST_MEMORY, shortfalls

LARGEST = max(MOST_MEMORY)


@pytest.mark.parametrize(
    ("ratio", "memory", "lines"),
    [
        (LEAST_RATIO, MOST_MEMORY[LARGEST], []),
        (LEAST_RATIO - 0.1, MOST_MEMORY[LARGEST], ["too slow"]),
        (LEAST_RATIO, MOST_MEMORY[LARGEST] + 1, [f"{LARGEST:,} tiles took"]),
    ],
)
def test_a_figure_beyond_its_bound_is_one_line(ratio: float, memory: float, lines: list[str]) -> None:
    runs = [{"what": "unchanged", "tiles": LARGEST, "whole": {"rss": memory}}]
    found = list(shortfalls({"ratio": {"ratio_by_cpu": ratio, "runs": []}, "flat": {"runs": runs}}))
    assert len(found) == len(lines)
    assert all(words in line for words, line in zip(lines, found, strict=True))


def test_a_program_that_fails_gives_no_figures(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match=r"ended with 3:\nit said why"):
        run(["sh", "-c", "echo it said why; exit $CODE"], tmp_path / "output", {"CODE": "3"})


def test_the_cores_stay_the_same_while_this_process_has_one_of_them() -> None:
    both = cores()
    with on_core(both[1]):
        assert cores() == both
