"""The item pipeline paces what it stores, and stores at once what a crawl that ends still has."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from itemadapter import ItemAdapter
from msgspec.structs import replace
from scrapy.utils.serialize import ScrapyJSONEncoder

from tests.middlewares.making import added, drawn, run_jumping
from tileharvest.maps.rates import Gap
from tileharvest.pipelines import HistoryPipeline
from tileharvest.politeness.waits import Wait
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Iterable


def kept_at(results: Iterable[TileResult], *, is_closing: bool = False) -> list[float]:
    """The moments at which the pipeline gives these results, which come at once, to the harvest."""
    moments: list[float] = []

    async def keep(result: TileResult) -> None:
        moments.append(asyncio.get_running_loop().time())

    closing = object() if is_closing else None
    engine = SimpleNamespace(_slot=SimpleNamespace(closing=closing))
    crawl: Any = SimpleNamespace(crawler=SimpleNamespace(engine=engine), waits=[])
    harvest: Any = SimpleNamespace(keep=keep)
    pipeline = HistoryPipeline(crawl, harvest, Gap(0.25, 0.25))

    async def run() -> None:
        await asyncio.gather(*(pipeline.process_item(result) for result in results))

    run_jumping(run())
    return moments


def images(many: int) -> list[TileResult]:
    return [added(Tile(0, 2 * x + 1, 1), drawn(str(x))) for x in range(many)]


def test_images_are_stored_no_faster_than_the_pipelines_delay() -> None:
    assert kept_at(images(4)) == pytest.approx([0, 0.25, 0.5, 0.75])


def test_an_image_that_waits_for_its_turn_is_told_as_that() -> None:
    engine = SimpleNamespace(_slot=SimpleNamespace(closing=None))
    crawl: Any = SimpleNamespace(crawler=SimpleNamespace(engine=engine), waits=[])
    harvest: Any = SimpleNamespace(keep=lambda result: asyncio.sleep(0))
    pipeline = HistoryPipeline(crawl, harvest, Gap(7, 7))

    async def run() -> None:
        keeping = asyncio.gather(*(pipeline.process_item(result) for result in images(2)))
        await asyncio.sleep(1)
        assert crawl.waits == [Wait("the next turn to store an image", 0.0, 7.0)]
        await keeping
        assert crawl.waits == []

    run_jumping(run())


def test_what_brings_no_image_does_not_wait_to_be_stored() -> None:
    unchanged = [TileResult("day", Tile(0, 2 * x + 1, 3), Outcome.IGNORED) for x in range(3)]
    assert kept_at([*images(2), *unchanged]) == pytest.approx([0, 0, 0, 0, 0.25])


def test_a_crawl_that_ends_stores_what_it_has_at_once() -> None:
    assert kept_at(images(3), is_closing=True) == [0, 0, 0]


def test_a_feed_writes_a_result_with_its_parts() -> None:
    result = replace(added(Tile(-1, 2, 6), drawn("new")), body=None, validator=Validator('"1"'))
    assert result.image is not None
    assert json.loads(json.dumps(result, cls=ScrapyJSONEncoder)) == {
        "layer": result.layer,
        "tile": {"zoom": -1, "x": 2, "y": 6},
        "outcome": "add",
        "image": {"sha1": result.image.sha1, "extension": "png", "size": result.image.size},
        "body": None,
        "validator": {"etag": '"1"', "last_modified": None},
        "reason": None,
        "step": {"seen": None, "skips": False, "doubts": False, "is_kept": True},
        "again": False,
    }


def test_a_pipeline_reads_a_result_by_its_fields_and_cannot_change_it() -> None:
    result = TileResult("day", Tile(0, 1, 3), Outcome.IGNORED)
    item = ItemAdapter(result)
    assert list(item.field_names()) == ItemAdapter.get_field_names_from_class(TileResult)
    assert (item["layer"], item.get("unknown"), len(item)) == ("day", None, 9)
    with pytest.raises(AttributeError):
        item["layer"] = "night"
    with pytest.raises(AttributeError):
        del item["layer"]


def test_a_result_in_words_has_no_bytes() -> None:
    body = drawn("new")
    assert repr(body) not in repr(added(Tile(0, 1, 3), body))
