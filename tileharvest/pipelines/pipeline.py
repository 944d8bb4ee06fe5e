"""The item pipeline that stores and records the results of a harvest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from itemadapter import ItemAdapter
from itemadapter.adapter import AdapterInterface
from msgspec import Struct
from msgspec.structs import replace
from scrapy.exceptions import DropItem

from tileharvest.errors import TileHarvestError
from tileharvest.scheduler.crawl import crawl_of, harvest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.scheduler.crawl import CrawlContext
    from tileharvest.spiders.blocks import BlockResult


class StructAdapter(AdapterInterface):
    """Lets feeds and other pipelines read results, which are structs of msgspec, as they read dataclasses."""

    @classmethod
    def is_item_class(cls, item_class: type) -> bool:
        return issubclass(item_class, Struct)

    @classmethod
    def get_field_names_from_class(cls, item_class: type[Struct]) -> list[str]:
        return list(item_class.__struct_fields__)

    def __getitem__(self, name: str) -> Any:
        if name not in self.item.__struct_fields__:
            raise KeyError(name)
        return getattr(self.item, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self.item, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self.item, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.item.__struct_fields__)

    def __len__(self) -> int:
        return len(self.item.__struct_fields__)


ItemAdapter.ADAPTER_CLASSES.append(StructAdapter)  # type: ignore[attr-defined]


class HistoryPipeline:
    """Stores the new images of a block, records the block, and hands the result on without the bytes. When
    the result has passed all pipelines, the lease of its request ends.

    A result that cannot be kept ends the harvest.
    """

    def __init__(self, crawl: CrawlContext, harvest: Harvest) -> None:
        self._crawl = crawl
        self._harvest = harvest

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawl_of(crawler), harvest_of(crawler))

    async def process_item(self, item: BlockResult) -> BlockResult:
        self._harvest.cost_meter.spared_bytes += item.spared_bytes
        try:
            await self._harvest.keep(item.block, item.found, item.bodies, again=item.again)
        except TileHarvestError as error:
            self._crawl.end(error)
            raise DropItem(f"not kept: {item.block}", log_level="DEBUG") from None
        # The bytes are stored. Feeds and further pipelines get what JSON can hold.
        return replace(item, bodies={})
