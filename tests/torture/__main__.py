"""The command `make torture`: harvests are disturbed at random, and must leave what undisturbed ones do.

    make torture                                        a thousand kills, by a seed of its own
    make torture ARGS="--kills 100 --seed 7 --hours 1"  fewer, the same each time, for an hour at most
    make torture ARGS="--seed 7 --round 12"             one round again

Each round takes a stage (a harvest of real maps after one of the day before), lets it be done by one
process or by three workers over Redis and PostgreSQL, and disturbs it at moments that the seed draws:
SIGKILL, SIGSTOP for longer than the leases, a killed Redis, a PostgreSQL restarted in immediate mode, a full
disk, a clock that steps. Then the whole history, row by row, all images and the queue are compared with those
of the same harvest undisturbed, and so are the versions after the day after. A round that fails leaves its
folder.

Needs root, for the small disk that gets full, and the real maps in `../shared/maps`, or where
`TILEHARVEST_SHARED_MAPS` says.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.servers.nginx import nginx
from tests.servers.postgresql import postgresql_server
from tests.servers.redis import AOF, redis_server
from tests.torture.rounds import Round
from tests.torture.stages import DAY, DAY_AFTER, DAY_BEFORE, STAGES, Undisturbed, Workplace, publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.postgresql import PostgresqlServer
    from tests.servers.redis import RedisServer
    from tests.torture.rounds import Outcome
    from tests.torture.stages import Stage

_MAPS: Final = Path(os.environ.get("TILEHARVEST_SHARED_MAPS", Path(__file__).parents[3] / "shared" / "maps"))


class Torture:
    """The rounds of one seed, their servers, and how the stages end undisturbed."""

    def __init__(self, folder: Path, servers: ExitStack, seed: int) -> None:
        self._folder = folder
        self._servers = servers
        self._seed = seed
        self._redis: RedisServer = servers.enter_context(redis_server(*AOF))
        self._postgresql: PostgresqlServer = servers.enter_context(postgresql_server())
        self._undisturbed: dict[tuple[Stage, bool], Undisturbed] = {}
        self._sites: dict[Stage, Path] = {}
        self.done: dict[tuple[str, str], Counter[str]] = {}
        """By stage and by who harvests: what was done, and what came of it."""

    def round(self, number: int) -> Outcome:
        """Raises DifferenceError."""
        drawn = random.Random(f"{self._seed}/{number}")
        stage, is_fleet = drawn.choice(STAGES), drawn.random() < 0.4
        self.name = f"{'three workers' if is_fleet else 'one process'}, {stage.name}"
        undisturbed = self._ends_undisturbed(stage, is_fleet=is_fleet)
        workplace = self._workplace(stage, f"round{number}", is_fleet=is_fleet)
        this = Round(workplace, undisturbed, drawn)
        try:
            outcome = this.run()
        except BaseException:
            workplace.fleet.__exit__()
            self._redis.ask("FLUSHALL")
            raise
        workplace.close()
        who = "three workers" if is_fleet else "one process"
        counted = self.done.setdefault((stage.name, who), Counter())
        counted.update(outcome.done)
        counted["rounds"] += 1
        return outcome

    def _workplace(self, stage: Stage, name: str, *, is_fleet: bool) -> Workplace:
        shared = (self._redis, self._postgresql) if is_fleet else (None, None)
        return Workplace(stage, self._server, *shared, self._folder / name, f"{name.replace('-', '_')}")

    def _ends_undisturbed(self, stage: Stage, *, is_fleet: bool) -> Undisturbed:
        """Harvests it once without disturbances; by one worker."""
        site = self._site(stage)
        if (stage, is_fleet) in self._undisturbed:
            publish(_MAPS, stage, site, is_before=False)
            return self._undisturbed[stage, is_fleet]
        name = f"stage{STAGES.index(stage)}{'three' if is_fleet else 'one'}"
        before = None
        if publish(_MAPS, stage, site, is_before=True):
            before = self._workplace(stage, f"{name}before", is_fleet=is_fleet)
            before.open()
            before.harvest(DAY_BEFORE)
        publish(_MAPS, stage, site, is_before=False)
        workplace = self._workplace(stage, name, is_fleet=is_fleet)
        workplace.open(before)
        found = []
        for day in (DAY, DAY_AFTER):
            self._server.clear_log()
            workplace.harvest(day)
            found.append(workplace.left(list(self._server.log())))
        workplace.close()
        self._undisturbed[stage, is_fleet] = Undisturbed(before, *found)
        return self._undisturbed[stage, is_fleet]

    def _site(self, stage: Stage) -> Path:
        """One server for all: maps are asked for at the same addresses."""
        folder = self._folder / "site"
        if not folder.exists():
            folder.mkdir()
            self._server = self._servers.enter_context(nginx(folder))
        return folder


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000, help="end after so many SIGKILLs (1000)")
    parser.add_argument("--seed", type=int, help="draws the same rounds again")
    parser.add_argument("--hours", type=float, default=24.0, help="end after so long (24)")
    parser.add_argument("--round", type=int, help="only this round of the seed")
    parser.add_argument("--folder", type=Path, help="where folders of failed rounds are left")
    wanted = parser.parse_args(arguments)
    missing = _missing(wanted.folder)
    if missing is not None:
        say(f"make torture: {missing}; nothing was begun")
        return 2
    seed = random.SystemRandom().randrange(1_000_000) if wanted.seed is None else wanted.seed
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=wanted.folder))
    with ExitStack() as servers:
        failed = _run(Torture(folder, servers, seed), wanted, seed, folder)
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


def _missing(folder: Path | None) -> str | None:
    """Returns what must be there first, or None where all is."""
    if not _MAPS.is_dir():
        return f"there are no real maps in {_MAPS}: TILEHARVEST_SHARED_MAPS names another folder"
    if os.geteuid() != 0:
        return "only root may mount the small disk that gets full: run it with sudo"
    if folder is not None and not folder.is_dir():
        return f"--folder {folder} is no folder: make it first"
    return None


def _run(torture: Torture, wanted: argparse.Namespace, seed: int, folder: Path) -> list[int]:
    began, kills, number, failed = time.monotonic(), 0, 0, []
    numbers = [wanted.round] if wanted.round is not None else None
    say(f"seed {seed}; folders of failed rounds stay in {folder}")
    while kills < wanted.kills and time.monotonic() - began < wanted.hours * 3600:
        this = number if numbers is None else numbers.pop()
        number += 1
        try:
            outcome = torture.round(this)
        except AssertionError as trouble:
            failed.append(this)
            say(f"round {this}: {torture.name}: FAILED\n{trouble}")
            say(f'again: make torture ARGS="--seed {seed} --round {this}"; its folder: {folder}/round{this}')
        else:
            kills += outcome.done["kill"]
            say(f"round {this}: {torture.name}: {outcome.in_words}; {kills} kills so far")
        if numbers == []:
            break
    minutes = (time.monotonic() - began) / 60
    say(f"\n{number} rounds in {minutes:.0f} minutes by seed {seed}, {len(failed)} failed: {failed}\n")
    say(_table(torture))
    return failed


def _table(torture: Torture) -> str:
    """Returns the table that docs/reliability.md shows."""
    columns = ("rounds", "kill", "stop", "Redis", "PostgreSQL", "full disk", "stepped clock")
    lines = [f"| harvest | by | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    total: Counter[str] = Counter()
    for (stage, who), counted in sorted(torture.done.items()):
        total.update(counted)
        lines.append(f"| {stage} | {who} | {' | '.join(str(counted[one]) for one in columns)} |")
    lines.append(f"| all | | {' | '.join(f'**{total[one]}**' for one in columns)} |")
    return "\n".join(lines)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
