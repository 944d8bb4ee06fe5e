"""Whose queue a name means that is given to a command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings

from tileharvest import spiders
from tileharvest.commands.settings import queue_owner
from tileharvest.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

SPIDER = "from scrapy import Spider\n\n\nclass Beside(Spider):\n    name = 'beside'\n"


def test_a_spider_that_a_project_has_put_beside_ours_has_a_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text(SPIDER)
    monkeypatch.setattr(spiders, "__path__", [*spiders.__path__, str(tmp_path)])
    settings = Settings(
        {"SPIDER_MODULES": ["tileharvest.spiders"], "TILEHARVEST_MAPS": tmp_path / "maps.toml"}
    )
    try:
        assert queue_owner(settings, "beside").in_words == "spider 'beside'"
        with pytest.raises(ConfigurationError, match="neither a map nor a spider 'besides'"):
            queue_owner(settings, "besides")
    finally:
        sys.modules.pop("tileharvest.spiders.beside", None)
