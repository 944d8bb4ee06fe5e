from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileharvest.history.database import History

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the history is; its folder does not exist yet."""
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def history(url: str) -> Iterator[History]:
    with History.open(url) as opened:
        yield opened
