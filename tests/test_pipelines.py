"""The item pipeline paces what it stores, and stores at once what a crawl that ends still has."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from itemadapter import ItemAdapter
from scrapy.utils.serialize import ScrapyJSONEncoder

from tests.middlewares.making import LAYER, drawn, image_of, run_jumping
from tileharvest.history.blocks import FoundBlock
from tileharvest.maps.rates import Delay
from tileharvest.pipelines import HistoryPipeline
from tileharvest.spiders.blocks import BlockResult
from tileharvest.tiles.block import Block
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable


def result(*names: str) -> BlockResult:
    """What was found in a block with so many new images."""
    bodies = {image_of(drawn(name)): drawn(name) for name in names}
    images = dict(enumerate(bodies))
    outcomes = {Outcome.ADDED: 2 ** len(names) - 1} if names else {Outcome.IGNORED: 1}
    validators = {bit: Validator('"1"') for bit in images}
    found = FoundBlock(outcomes, images=images, validators=validators)
    return BlockResult(Block(LAYER, 0, 0, 0, 0b111), found, bodies)


def kept_at(results: Iterable[BlockResult], *, is_ending: bool = False) -> list[float]:
    """The moments at which the pipeline gives these results, which come at once, to the harvest."""
    moments: list[float] = []

    async def keep(block: Block, found: FoundBlock, bodies: object, *, again: bool) -> None:
        moments.append(asyncio.get_running_loop().time())

    crawl: Any = SimpleNamespace(is_ending=is_ending, waits=[])
    harvest: Any = SimpleNamespace(keep=keep, cost_meter=SimpleNamespace(spared_bytes=0))
    pipeline = HistoryPipeline(crawl, harvest, Delay(0.25, 0.25))

    async def run() -> None:
        await asyncio.gather(*(pipeline.process_item(one) for one in results))

    run_jumping(run())
    return moments


@pytest.mark.parametrize(
    ("names", "is_ending", "moments"),
    [
        (["a", "b", "c"], False, [0, 0.25, 0.5]),
        (["ab", "c"], False, [0.25, 0.5]),
        (["a", "", ""], False, [0, 0, 0]),
        (["a", "b", "c"], True, [0, 0, 0]),
    ],
    ids=["an image each", "two images of a block", "no image", "a crawl that ends"],
)
def test_images_are_stored_no_faster_than_the_pipelines_delay(
    names: list[str], is_ending: bool, moments: list[float]
) -> None:
    assert kept_at([result(*one) for one in names], is_ending=is_ending) == pytest.approx(moments)


def test_a_feed_writes_a_result_with_its_parts() -> None:
    harvest: Any = SimpleNamespace(
        keep=lambda *found, again: asyncio.sleep(0), cost_meter=SimpleNamespace(spared_bytes=0)
    )
    pipeline = HistoryPipeline(SimpleNamespace(), harvest, Delay(0.0, 0.0))  # type: ignore[arg-type]
    written = json.loads(json.dumps(asyncio.run(pipeline.process_item(result("new"))), cls=ScrapyJSONEncoder))
    assert written["block"] == {"layer": LAYER, "zoom": 0, "column": 0, "row": 0, "mask": 7}
    assert written["found"]["outcomes"] == {"add": 1}
    assert written["found"]["images"]["0"]["sha1"] == image_of(drawn("new")).sha1
    assert written["bodies"] == {}


def test_a_pipeline_reads_a_result_by_its_fields_and_cannot_change_it() -> None:
    item = ItemAdapter(result("new"))
    assert list(item.field_names()) == ItemAdapter.get_field_names_from_class(BlockResult)
    assert item.get("unknown") is None
    with pytest.raises(AttributeError):
        item["block"] = None
