"""The harvests that are disturbed: what lies before each of them, and how it ends undisturbed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.crash.soundness import is_leftover
from tests.end_to_end.pruned_stage import RARELY
from tests.fleet.workers import Fleet
from tests.servers.published import published
from tests.torture.whole_history import whole_history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.fleet.workers import Worker
    from tests.servers.nginx import LogLine, Nginx
    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.redis import RedisServer
    from tests.torture.whole_history import Rows

DAY_BEFORE: Final = "2024-05-01"
DAY: Final = "2024-05-02"
"""That of the harvest that is disturbed."""
DAY_AFTER: Final = "2024-05-03"


@dataclass(frozen=True, slots=True)
class Stage:
    """A harvest of some real maps. It can be hashed."""

    name: str
    maps: tuple[tuple[str, int], ...]
    """Each with its version; the one before was harvested on the day before. Nothing was before version 1."""
    keys: tuple[tuple[str, Any], ...] = ()
    """Of all entries in maps.toml."""


ANTWORLD: Final = "antworld"
_IMAGES: Final = (".png", ".jpg", ".jpeg", ".webp")
_PRUNED: Final = (("walk", "pruned"), ("full_every", RARELY))
_UNAUDITED: Final = (("audit", 0),)
"""What an audit asks is drawn anew for each harvest, so without one all that is found can be compared."""
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
    images: dict[str, str]
    """Path in the store, and the SHA1 of what is there. What a killed writer has not named is left out."""
    requests: int
    """That the site has answered."""
    of_tiles: int
    """Those of them that came after the harvest had begun: others find out what the site has."""
    received_bytes: int
    """The bodies of these."""


@dataclass(slots=True)
class Workplace:
    """Where harvests of a stage are run: by one process, or by workers that share a queue."""

    stage: Stage
    server: Nginx
    redis: RedisServer | None
    """None for one process with its queue in a file and its history in SQLite."""
    postgresql: PostgresqlServer | None
    folder: Path
    database: str = ""
    fleet: Fleet = field(init=False)

    def open(self, before: Workplace | None = None) -> None:
        """With a copy of another workplace's data, or without any."""
        url = None
        if self.postgresql is not None:
            # The other strategy copies sequences so that they go back when the server crashes soon.
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
        """Undisturbed. Raises AssertionError where it does not end with 0."""
        worker = self.start(day)
        self.fleet.await_ends(worker, patience=300)
        assert worker.status == 0, worker.log

    def left(self, lines: Sequence[LogLine]) -> Left:
        """After a harvest of which the site has logged these lines."""
        stored = self.fleet.project.stored()
        of_tiles = [line for line in lines if line.path.endswith(_IMAGES)]
        return Left(
            whole_history(self.fleet.database_url),
            {name: sha1(body).hexdigest() for name, body in stored.items() if not is_leftover(name)},
            len(lines),
            len(of_tiles),
            sum(line.size for line in of_tiles),
        )


class Undisturbed(NamedTuple):
    """A stage as it is without disturbances."""

    before: Workplace | None
    found: Left
    after: Left
    """On the day after, when nothing has changed."""


def publish(shared_maps: Path, stage: Stage, site: Path, *, is_before: bool) -> bool:
    """Lets the site have the maps of the stage, or of the day before. Returns False where there was none."""
    for name, version in stage.maps:
        if is_before and version == 1:
            return False
        published(shared_maps, name, version - is_before, site / name)
    return True


def misnamed(images: Mapping[str, str]) -> list[str]:
    """Images whose bytes are not those that their name says."""
    return [name for name, digest in images.items() if PurePosixPath(name).stem != digest]
