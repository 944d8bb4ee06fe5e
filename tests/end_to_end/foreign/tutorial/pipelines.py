"""Where items go: into a file per spider, surely."""

import json
import os
from pathlib import Path
from typing import Any, Self

from scrapy.crawler import Crawler


class LinesPipeline:
    """Appends each item to `items/SPIDER.jsonl`, so that no kill takes it back."""

    def __init__(self, name: str) -> None:
        self._file = Path("items") / f"{name}.jsonl"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.spidercls.name)

    def open_spider(self) -> None:
        self._file.parent.mkdir(exist_ok=True)
        self._lines = self._file.open("a", encoding="utf-8")

    def close_spider(self) -> None:
        self._lines.close()

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        self._lines.write(json.dumps(item, sort_keys=True) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        return item
