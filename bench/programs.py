"""The two programs whose fleets are compared: ours, and a plain spider on scrapy-redis."""

from __future__ import annotations

import json
import sys
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from bench.cost import RunFailedError
from bench.harvest import FIRST_DAY
from bench.site import LAYER
from bench.stock_redis import READY, SEEDS
from bench.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.boxes import Box
    from bench.cost import Cost
    from bench.distant_site import Arrivals, DistantSite
    from tests.servers.redis import RedisServer

_FIRST_CONCURRENCY: Final = 32


class Program(Protocol):
    """A program that walks down one site's map with any number of workers. Folders must not exist yet."""

    name: str

    def walk(self, folder: Path, concurrency: int, boxes: Sequence[Box | None]) -> tuple[list[Cost], float]:
        """Walks with one worker in each box.

        Returns the workers' costs, and when the last one had ended, on the monotonic clock. `concurrency` is
        that of all workers together. Raises RunFailedError where a worker ends with an error.
        """
        ...


class TileHarvest:
    """Our program, with a history that grows by a day with each walk."""

    name = "TileHarvest"

    def __init__(self, folder: Path, site: DistantSite, redis: RedisServer, database: str) -> None:
        """Makes the first harvest, after which nothing changes. `database` is the history's address."""
        folder.mkdir()
        self._site = site
        self._maps = folder / "maps.toml"
        places = {"TILEHARVEST_MAPS": str(self._maps), "TILEHARVEST_DATA": str(folder / "data")}
        self._environment = places | {"DATABASE_URL": database}
        self._redis = {"REDIS_URL": redis.url}
        self._day = date.fromisoformat(FIRST_DAY)
        self._describe(site.near_url, _FIRST_CONCURRENCY)
        command = [*self._command(), "-s", "SCHEDULER_QUEUE=memory"]
        with Workers(command, self._environment, folder / "first", [None]) as worker:
            worker.costs(_patience(site))
        check_asked(site.asked(), heads=0, gets=site.tiles)

    def walk(self, folder: Path, concurrency: int, boxes: Sequence[Box | None]) -> tuple[list[Cost], float]:
        self._describe(self._site.url, concurrency)
        self._day += timedelta(days=1)
        with Workers(self._command(), self._environment | self._redis, folder, boxes) as workers:
            return workers.costs(_patience(self._site)), time.monotonic()

    def _describe(self, url: str, concurrency: int) -> None:
        entry = (
            f'[bench]\nurl = "{url}/"\nconcurrency = {concurrency}\ntimezone = "UTC"\nchange_index = false\n'
        )
        self._maps.write_text(entry, encoding="utf-8")

    def _command(self) -> list[str]:
        arguments = ("-a", "map=bench", "-a", f"day={self._day}")
        return [sys.executable, "-m", "scrapy", "crawl", "overviewer", *arguments]


class ScrapyRedis:
    """A `RedisSpider` that needs no history, as it holds all ETags in its memory."""

    name = "scrapy-redis"

    def __init__(self, folder: Path, site: DistantSite, redis: RedisServer) -> None:
        folder.mkdir()
        self._site = site
        self._redis = redis
        self._etags = folder / "etags.json"
        self._etags.write_text(json.dumps(site.etags()), encoding="utf-8")

    def walk(self, folder: Path, concurrency: int, boxes: Sequence[Box | None]) -> tuple[list[Cost], float]:
        layer = f"{self._site.url}/{LAYER}"
        seeds = [json.dumps({"url": f"{layer}/{digit}.png", "method": "HEAD"}) for digit in "0123"]
        self._redis.ask("RPUSH", SEEDS, *seeds)
        each, levels = concurrency // len(boxes), layer.count("/") + self._site.depth
        arguments = (str(self._etags), str(levels), str(each), self._redis.url)
        with Workers([sys.executable, "-m", "bench.stock_redis", *arguments], {}, folder, boxes) as workers:
            self._await_last_tile(workers)
            costs = workers.costs(_patience(self._site))
            ended = time.monotonic()
        found = sum(_unchanged(output) for output in workers.output())
        if found != self._site.tiles:
            raise RunFailedError(f"scrapy-redis found {found} of {self._site.tiles} tiles unchanged")
        return costs, ended

    def _await_last_tile(self, workers: Workers) -> None:
        """Waits until the last tile was asked for, and then asks the workers to end.

        A worker that is asked to end still waits for the answers that are on their way.
        """
        end = time.monotonic() + _patience(self._site)
        # On a tiny map the first worker may be through before the last one can be told anything.
        while self._site.heads() < self._site.tiles or not all(map(_is_ready, workers.output())):
            workers.expect_running()
            if time.monotonic() > end:
                raise RunFailedError("scrapy-redis did not come to the last tile in time")
            time.sleep(0.2)
        workers.ask_to_end()


def check_asked(asked: Arrivals, *, heads: int, gets: int) -> None:
    """Raises RunFailedError unless exactly so many tiles were asked for: other figures would mean nothing."""
    if (len(asked.heads), asked.gets) != (heads, gets):
        raise RunFailedError(
            f"{len(asked.heads)} HEADs and {asked.gets} GETs of tiles were made, not {heads} and {gets}"
        )


def _patience(site: DistantSite) -> float:
    """Returns the seconds that a walk may take, start and end included."""
    return 60 + site.tiles / 100


def _is_ready(output: str) -> bool:
    return READY in output


def _unchanged(output: str) -> int:
    """Returns the number that a worker of scrapy-redis tells when it ends. Raises RunFailedError if it told
    none."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"reason"'):
            told: Mapping[str, int] = json.loads(line)
            return told["unchanged"]
    raise RunFailedError(f"a worker of scrapy-redis ended without its counts; it said last: {output[-500:]}")
