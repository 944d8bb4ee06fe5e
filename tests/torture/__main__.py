"""The command `make torture`: disturbs harvests at random and compares them with undisturbed ones.

    make torture                                        a thousand kills, with a new seed
    make torture ARGS="--kills 100 --seed 7 --hours 1"  100 kills, at most an hour, with the rounds of seed 7
    make torture ARGS="--seed 7 --round 12"             repeats one round

Each round runs a stage: a harvest of real maps, usually after a harvest of the day before. One process or
three workers over Redis and PostgreSQL do the work. The seed draws the moments of the disturbances:
SIGKILL, SIGSTOP for longer than a lease, a killed Redis, a PostgreSQL restarted in immediate mode, a full
disk, a clock that steps by hours. Then the round compares every row of the history, all images and the queue
with those of the same harvest undisturbed. It harvests once more on the day after, and compares the versions
again. A round that fails leaves its folder.

The command needs the real maps in `../shared/maps`, or in the folder that `TILEHARVEST_SHARED_MAPS` names.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

from tests.torture.rounds import Torture
from tests.torture.stages import STAGES

_MAPS: Final = Path(os.environ.get("TILEHARVEST_SHARED_MAPS", Path(__file__).parents[3] / "shared" / "maps"))


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
        failed = _run(Torture(_MAPS, folder, servers), wanted, seed, folder)
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed else 0


def _run(torture: Torture, wanted: argparse.Namespace, seed: int, folder: Path) -> list[int]:
    began, failed = time.monotonic(), list[int]()
    done: dict[str, Counter[str]] = {"one process": Counter(), "three workers": Counter()}
    say(f"seed {seed}; folders of failed rounds stay in {folder}")
    for number in count() if wanted.round is None else [wanted.round]:
        kills = sum(counted["kill"] for counted in done.values())
        if kills >= wanted.kills or time.monotonic() - began >= wanted.hours * 3600:
            break
        drawn = random.Random(f"{seed}/{number}")
        stage, is_fleet = drawn.choice(STAGES), drawn.random() < 0.4
        who = "three workers" if is_fleet else "one process"
        name = f"{who}, {stage.name}"
        try:
            disturbed = torture.round(f"round{number}", stage, drawn, is_fleet=is_fleet)
        except AssertionError as trouble:
            failed.append(number)
            say(f"round {number}: {name}: FAILED\n{trouble}")
            again = f'make torture ARGS="--seed {seed} --round {number}"'
            say(f"again: {again}; its folder: {folder}/round{number}")
        else:
            done[who] += Counter(disturbed, rounds=1)
            what = ", ".join(f"{times} {what}" for what, times in sorted(disturbed.items()) if times)
            say(f"round {number}: {name}: {what or 'nothing came in time'}; equal; {kills} kills before")
    minutes = (time.monotonic() - began) / 60
    say(f"\nin {minutes:.0f} minutes by seed {seed}, rounds failed: {failed}\n")
    for who, counted in done.items():
        say(f"{who}: {dict(counted)}")
    return failed


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
