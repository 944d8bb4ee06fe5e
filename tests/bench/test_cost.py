"""What the benchmarks measure of a program is the program's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.cost import RunFailedError, run

if TYPE_CHECKING:
    from pathlib import Path


def test_the_memory_of_a_small_program_is_its_own_and_not_that_of_who_measures(tmp_path: Path) -> None:
    ballast = bytearray(b"x") * (100 << 20)
    assert run(["true"], tmp_path / "output", {}).rss < 40
    assert len(ballast) == 100 << 20


def test_a_program_that_fails_gives_no_figures(tmp_path: Path) -> None:
    with pytest.raises(RunFailedError, match=r"ended with 3:\nit said why"):
        run(["sh", "-c", "echo it said why; exit $CODE"], tmp_path / "output", {"CODE": "3"})
