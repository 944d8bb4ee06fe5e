"""The command `make torture`: disturbs harvests at random and compares them with undisturbed ones.

    make torture                                        a thousand kills, with a new seed
    make torture ARGS="--kills 100 --seed 7 --hours 1"  100 kills, at most an hour, with the rounds of seed 7
    make torture ARGS="--seed 7 --round 12"             repeats one round

Each round runs a stage: a harvest of real maps, usually after a harvest of the day before. One process or
three workers over Redis and PostgreSQL do the work. The seed draws the moments of the disturbances:
SIGKILL, SIGSTOP for longer than a lease, a killed Redis, a PostgreSQL restarted in immediate mode, a full
disk, a clock that steps by hours. Then the
round compares every row of the history, all images and the queue with those of the same harvest undisturbed.
It harvests once more on the day after, and compares the versions again. A round that fails leaves its folder.

The command needs the real maps in `../shared/maps`, or in the folder that `TILEHARVEST_SHARED_MAPS` names.
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
    """The rounds of one seed, the servers that they share, and the undisturbed results of the stages."""

    def __init__(self, folder: Path, servers: ExitStack, seed: int) -> None:
        self._folder = folder
        self._servers = servers
        self._seed = seed
        self._redis: RedisServer = servers.enter_context(redis_server(*AOF))
        self._postgresql: PostgresqlServer = servers.enter_context(postgresql_server())
        self._undisturbed: dict[tuple[Stage, bool], Undisturbed] = {}
        self._sites: dict[Stage, Path] = {}
        self.done: dict[str, Counter[str]] = {}
        """How many rounds held and which disturbances and requests they had, by who harvests."""
        self.stages: Counter[str] = Counter()
        """How many rounds of each stage held."""

    def round(self, number: int) -> Outcome:
        """Runs one round and returns its outcome. Raises DifferenceError if the round fails."""
        drawn = random.Random(f"{self._seed}/{number}")
        stage, is_fleet = drawn.choice(STAGES), drawn.random() < 0.4
        who = "three workers" if is_fleet else "one process"
        self.name = f"{who}, {stage.name}"
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
        self.stages[stage.name] += 1
        self.done.setdefault(who, Counter()).update(
            outcome.done,
            rounds=1,
            asked=outcome.asked,
            counted=outcome.counted,
            after=outcome.after,
            undisturbed_after=outcome.undisturbed_after,
        )
        return outcome

    def _workplace(self, stage: Stage, name: str, *, is_fleet: bool) -> Workplace:
        shared = (self._redis, self._postgresql) if is_fleet else (None, None)
        return Workplace(stage, self._server, *shared, self._folder / name, f"{name.replace('-', '_')}")

    def _ends_undisturbed(self, stage: Stage, *, is_fleet: bool) -> Undisturbed:
        """Returns what the stage leaves undisturbed. The first call harvests it, by one worker."""
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
        """Returns the folder of the site. All stages share one server, so a map keeps its address."""
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
    wanted = parser.parse_args(arguments)
    if not _MAPS.is_dir():
        say(f"make torture: there are no real maps in {_MAPS}: TILEHARVEST_SHARED_MAPS names another folder")
        return 2
    seed = random.SystemRandom().randrange(1_000_000) if wanted.seed is None else wanted.seed
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    with ExitStack() as servers:
        failed = _run(Torture(folder, servers, seed), wanted, seed, folder)
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


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
    for who, counted in sorted(torture.done.items()):
        say(f"{who}: {dict(counted)}")
    say(f"rounds of each stage: {dict(torture.stages)}")
    return failed


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
