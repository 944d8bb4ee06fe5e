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
        self._file.parent.mkdir(exist_ok=True)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler.spidercls.name)

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(item, sort_keys=True) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
        return item
