"""SIGKILL at any moment of a harvest of a real map: no finished work is lost, and no tile is skipped.

These are rounds of `make torture` with kills alone. One process is killed, or three workers over Redis and
PostgreSQL are.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.torture.rounds import Torture
from tests.torture.stages import STAGES, Stage

_EACH_TIME: Final = [(f"{walk}, by HEAD", False) for walk in ("first", "full", "pruned")]
_EACH_TIME += [("first, by HEAD", True)]
"""The stages that are tried without `--all`, and whether a fleet harvests them."""
_CASES: Final = [
    pytest.param(
        stage, is_fleet, marks=[] if (stage.name, is_fleet) in _EACH_TIME else pytest.mark.repetition
    )
    for is_fleet in (False, True)
    for stage in STAGES
]


@pytest.fixture(scope="module")
def torture(shared_maps: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Torture]:
    with ExitStack() as servers:
        yield Torture(shared_maps, tmp_path_factory.mktemp("torture"), servers)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("stage", "is_fleet"), _CASES, ids=str)
def test_a_killed_harvest_run_again_ends_as_if_it_had_not_been_killed(
    torture: Torture, stage: Stage, is_fleet: bool, kills: int
) -> None:
    random = Random(f"{stage.name} {is_fleet}")
    name = f"round{STAGES.index(stage)}{'three' if is_fleet else 'one'}"
    done = torture.round(name, stage, random, is_fleet=is_fleet, kinds=["kill"] * kills)
    assert done["kill"] > 0
