"""The command `python -m tileharvest.demo [--renderer NAME]`: harvests three days of a small world."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.demo.comparison import counts_of, matches, verdict
from tileharvest.demo.folders import MAP, fresh_data_folder, write_maps_file
from tileharvest.demo.forms import FORMS
from tileharvest.demo.prediction import predicted_outcomes
from tileharvest.demo.publication import publish
from tileharvest.demo.server import serve
from tileharvest.demo.world import DAYS, World
from tileharvest.errors import ExitStatus, TileHarvestError
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileharvest.demo.forms import Form

_DATA: Final = Path("data/demo")
_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


@dataclass(frozen=True, slots=True)
class Demo:
    """One run of the demo. The data folder must be fresh; the site folder must be the demo's own."""

    world: World
    first_day: date
    data: Path
    site: Path
    form: Form = FORMS["overviewer"]

    async def run(self) -> bool:
        """Publishes and harvests each day in turn.

        Returns whether every harvest counted what the world predicts.
        """
        publish(self.world, DAYS[0], self.first_day, self.site, self.form)
        async with serve(self.site) as running:
            maps = write_maps_file(self.data, f"{running.url}{self.form.page}", self.form.renderer)
            environment = os.environ | {"TILEHARVEST_MAPS": str(maps), "TILEHARVEST_DATA": str(self.data)}
            return all([await self._harvest_day(day, environment) for day in DAYS])

    async def _harvest_day(self, day: int, environment: Mapping[str, str]) -> bool:
        today = self.first_day + timedelta(days=day - 1)
        publish(self.world, day, self.first_day, self.site, self.form)
        status = await _command(environment, "harvest", MAP, "-a", f"day={today}")
        if status:
            _say(f"day {today}: the harvest ended with exit status {status}")
            return False
        found = counts_of(await _harvests(environment), today)
        predicted = predicted_outcomes(self.world, day, self.form)
        if found is not None and not self.form.cut.is_square:
            found = {outcome: number for outcome, number in found.items() if outcome is not Outcome.NOTHING}
        _say(verdict(today, found, predicted))
        return matches(found, predicted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo. The exit status is 0 only if all three days came out as predicted."""
    options = _parser().parse_args(arguments)
    data = options.data.absolute()
    try:
        fresh_data_folder(data)
        with _site_folder(keep=options.keep) as site:
            # This is the only place that reads today's date.
            first_day = datetime.now(UTC).date() - timedelta(days=len(DAYS) - 1)
            fine = asyncio.run(Demo(World(), first_day, data, site, FORMS[options.renderer]).run())
    except TileHarvestError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    _say(what_next(data, "0_1_1" if FORMS[options.renderer].cut.is_square else ""))
    return ExitStatus.DONE if fine else ExitStatus.ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tileharvest.demo", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=_DATA, help="the demo's own data folder, made or emptied (%(default)s)"
    )
    parser.add_argument(
        "--renderer",
        choices=[name for name in FORMS if name in RENDERERS],
        default="overviewer",
        help="the renderer in whose form the map is published (%(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder of the published site")
    return parser


@contextmanager
def _site_folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tileharvest-demo-"))
    try:
        yield folder
    finally:
        if keep:
            _say(f"The site as it was on the last day: {folder}")
        else:
            shutil.rmtree(folder)


async def _command(environment: Mapping[str, str], *arguments: str) -> int:
    """Runs a command of the program and returns its exit status. Its output goes to the terminal."""
    command = (sys.executable, "-m", "tileharvest", *arguments)
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    return await process.wait()


async def _harvests(environment: Mapping[str, str]) -> str:
    command = (sys.executable, "-m", "tileharvest", "harvests", MAP, "--json")
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
    output, _ = await process.communicate()
    return output.decode()


def what_next(data: Path, tile: str = "0_1_1") -> str:
    """Returns what a person may do after the demo, with commands that work in the present folder.

    `tile` is one that the map has. Without it the history of all tiles is named.
    """
    versions = (
        f"history {MAP} {tile}    the history of one tile" if tile else f"history {MAP}    all versions"
    )
    # Scrapy itself has the commands only in the folder of a project.
    program = "scrapy" if Path("scrapy.cfg").is_file() else "tileharvest"
    command = _from_here(Path(sys.executable).with_name(program))
    return (
        "\nWhat next?\n"
        f"  export TILEHARVEST_MAPS={_from_here(data / 'maps.toml')} TILEHARVEST_DATA={_from_here(data)}\n"
        f"  {command} harvests {MAP}         its three harvests\n"
        f"  {command} {versions}\n"
        f"  {command} serve {MAP}            its three days in your browser, at http://127.0.0.1:8000/\n"
        "  unset TILEHARVEST_MAPS TILEHARVEST_DATA\n"
        f"  {command} add NAME URL          add a real map, by the address of its page\n"
        "README.md tells the rest. To see the three days now:\n"
        f"  TILEHARVEST_MAPS={_from_here(data / 'maps.toml')} TILEHARVEST_DATA={_from_here(data)}"
        f" {command} serve {MAP}"
    )


def _from_here(path: Path) -> Path:
    """Returns the path as a person in the present folder would write it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
