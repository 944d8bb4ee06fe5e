"""A drawn site that the end-to-end tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.bad_input.small_site import Stage, staged


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with staged(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage for a module whose tests look at different tiles of the same harvests."""
    with staged(tmp_path_factory.mktemp("stage")) as stage:
        yield stage
