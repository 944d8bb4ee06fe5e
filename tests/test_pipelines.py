"""What the item pipeline hands on to feeds and further pipelines, and what it drops."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import DropItem
from scrapy.utils.serialize import ScrapyJSONEncoder

from tests.middlewares.making import LAYER, drawn, image_of
from tileharvest.errors import HistoryError
from tileharvest.history.blocks import FoundBlock
from tileharvest.pipelines import HistoryPipeline
from tileharvest.spiders.blocks import BlockResult
from tileharvest.tiles.block import Block
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator

NEW = drawn("new")
RESULT = BlockResult(
    Block(LAYER, 0, 0, 0, 0b111),
    FoundBlock({Outcome.ADDED: 1}, images={0: image_of(NEW)}, validators={0: Validator('"1"')}),
    {image_of(NEW): NEW},
)


def test_a_feed_writes_a_result_with_its_parts() -> None:
    harvest: Any = SimpleNamespace(
        keep=lambda *found: asyncio.sleep(0), cost_meter=SimpleNamespace(spared_bytes=0)
    )
    pipeline = HistoryPipeline(SimpleNamespace(), harvest)  # type: ignore[arg-type]
    written = json.loads(json.dumps(asyncio.run(pipeline.process_item(RESULT)), cls=ScrapyJSONEncoder))
    assert written["block"] == {"layer": LAYER, "zoom": 0, "column": 0, "row": 0, "mask": 7}
    assert written["found"]["outcomes"] == {"add": 1}
    assert written["found"]["images"]["0"]["sha1"] == image_of(NEW).sha1


def test_a_result_that_cannot_be_kept_ends_the_crawl_and_goes_no_further() -> None:
    error, ended = HistoryError("the disk is full"), []

    async def keep(*found: Any) -> None:
        raise error

    harvest: Any = SimpleNamespace(keep=keep, cost_meter=SimpleNamespace(spared_bytes=0))
    pipeline = HistoryPipeline(SimpleNamespace(end=ended.append), harvest)  # type: ignore[arg-type]
    with pytest.raises(DropItem):
        asyncio.run(pipeline.process_item(RESULT))
    assert ended == [error]
