"""The harvests that `make torture` disturbs, the folders in which they run, and what they leave."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.crash.soundness import images
from tests.end_to_end.pruned_stage import RARELY
from tests.fleet.workers import Fleet, Worker
from tests.servers.nginx import Nginx
from tests.servers.postgresql import PostgresqlServer
from tests.servers.published import published
from tests.servers.redis import RedisServer
from tests.torture.whole_history import Rows, whole_history

DAY_BEFORE: Final = "2024-05-01"
DAY: Final = "2024-05-02"
"""The day of the harvest that is disturbed."""
DAY_AFTER: Final = "2024-05-03"


@dataclass(frozen=True, slots=True)
class Stage:
    """A harvest of some real maps. It is hashable."""

    name: str
    maps: tuple[tuple[str, int], ...]
    """The name and the version of each map. On the day before, the version before was harvested. A map with
    version 1 was not harvested before."""
    keys: tuple[tuple[str, Any], ...] = ()
    """Keys that each map has in maps.toml."""

    def __str__(self) -> str:
        return self.name


ANTWORLD: Final = "antworld"
_PRUNED: Final = (("walk", "pruned"), ("full_every", RARELY))
_UNAUDITED: Final = (("audit", 0),)
"""No audit. An audit draws other tiles in each harvest: only harvests without one can be compared in full."""
_CONDITIONAL: Final = (("check", "conditional"),)
_FULL: Final = (("walk", "full"),)

STAGES: Final = (
    Stage("first, by GET", ((ANTWORLD, 1),)),
    Stage("first, by HEAD", ((ANTWORLD, 1),), (("first", "head"),)),
    Stage("full, by HEAD", ((ANTWORLD, 2),), _FULL),
    Stage("full, conditional", ((ANTWORLD, 3),), (*_FULL, *_CONDITIONAL)),
    Stage("walk = auto", ((ANTWORLD, 2),), _UNAUDITED),
    Stage("pruned, by HEAD", ((ANTWORLD, 4),), (*_PRUNED, *_UNAUDITED)),
    Stage("pruned, with an audit", ((ANTWORLD, 4),), _PRUNED),
    Stage("pruned, conditional", ((ANTWORLD, 4),), (*_PRUNED, *_UNAUDITED, *_CONDITIONAL)),
    Stage("a map that has grown", (("alexjj", 2),), _FULL),
    Stage("tiles that vanish", (("helmetgreen", 2),), _FULL),
    Stage("tiles from an origin", (("sbatserver", 3),), _UNAUDITED),
    Stage("three maps at once", ((ANTWORLD, 4), ("alexjj", 2), ("mrozbarry", 2)), _UNAUDITED),
    Stage("three maps, pruned", ((ANTWORLD, 4), ("alexjj", 2), ("labyrinthmc", 2)), (*_PRUNED, *_UNAUDITED)),
)


class Left(NamedTuple):
    """What a harvest has left."""

    history: dict[str, Rows]
    images: dict[str, bytes]


@dataclass(slots=True)
class Workplace:
    """A folder, a history and a queue for the harvests of a stage."""

    stage: Stage
    server: Nginx
    redis: RedisServer | None
    """None for one process, which has its queue in a file and its history in SQLite."""
    postgresql: PostgresqlServer | None
    folder: Path
    database: str = ""
    fleet: Fleet = field(init=False)

    def open(self, before: Workplace | None = None) -> None:
        """Makes the folder and the history: a copy of those of `before`, or empty ones."""
        url = None
        if self.postgresql is not None:
            # With the other strategy, sequences of the copy go back when the server crashes soon after.
            template = f" TEMPLATE {before.database} STRATEGY FILE_COPY" if before else ""
            self.postgresql.ask(f"CREATE DATABASE {self.database}{template}")
            url = self.postgresql.tcp_url(self.database)
        self.fleet = Fleet(self.folder, None if self.redis is None else self.redis.url, url)
        if before is not None:
            shutil.copytree(before.fleet.project.data, self.fleet.project.data, dirs_exist_ok=True)
        for name, _ in self.stage.maps:
            self.fleet.project.add_map(name, f"{self.server.url}/{name}/", **dict(self.stage.keys))

    def close(self) -> None:
        self.fleet.__exit__()
        if self.postgresql is not None:
            self.postgresql.ask(f"DROP DATABASE {self.database} WITH (FORCE)")
        if self.redis is not None:
            self.redis.ask("FLUSHALL")
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def start(self, day: str, *more: str, **how: Any) -> Worker:
        return self.fleet.start(*more, day=day, command=("harvest", "--all"), **how)

    def harvest(self, day: str) -> None:
        """Harvests the day undisturbed, by one worker. Raises AssertionError if it does not end with 0."""
        worker = self.start(day)
        self.fleet.await_ends(worker, patience=300)
        assert worker.status == 0, worker.log

    def left(self) -> Left:
        return Left(whole_history(self.fleet.database_url), images(self.fleet.project))


class Undisturbed(NamedTuple):
    """The results of a stage without disturbances."""

    before: Workplace | None
    found: Left
    requests: int
    """The requests that the site has answered."""
    after: Left
    """What the harvest of the day after leaves. The site has not changed since."""


def publish(shared_maps: Path, stage: Stage, site: Path, *, is_before: bool) -> bool:
    """Puts the maps of the stage on the site, with `is_before` those of the day before. Returns False if
    there was no harvest on the day before."""
    for name, version in stage.maps:
        if is_before and version == 1:
            return False
        published(shared_maps, name, version - is_before, site / name)
    return True
