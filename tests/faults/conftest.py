"""Fixtures of the tests of faults: a program whose calls fail, and undisturbed harvests."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.faults.days import Day, first_day, second_day
from tests.faults.faults import Faulty, faulty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(scope="package")
def with_faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("the library that lets calls fail needs gcc and Linux")
    with faulty(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.fixture(scope="package")
def days(with_faults: Faulty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Day]]:
    """A map's first harvest, and a second one with new, changed, unchanged and vanished tiles."""
    with ExitStack() as stack:
        first = stack.enter_context(first_day(with_faults, tmp_path_factory.mktemp("first")))
        yield first, stack.enter_context(second_day(with_faults, tmp_path_factory.mktemp("second"), first))
