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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.demo.forms import FORMS
from tileharvest.demo.prediction import counts_of, matches, predicted_outcomes, verdict
from tileharvest.demo.publication import publish
from tileharvest.demo.server import serve
from tileharvest.demo.world import DAYS, World
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from tileharvest.demo.forms import Form

MARKER: Final = ".tileharvest-demo"
"""The name of a file which says that the demo made this folder and may empty it."""
MAP: Final = "demo"
_DATA: Final = Path("data/demo")
_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


async def _run(data: Path, site: Path, form: Form) -> bool:
    """Publishes the world into the folder `site` and harvests it, day by day.

    Returns whether every harvest counted what the world predicts.
    """
    # This is the only place that reads today's date.
    first_day = datetime.now(UTC).date() - timedelta(days=len(DAYS) - 1)
    async with serve(site) as url:
        maps = write_maps_file(data, f"{url}{form.page}", form.renderer)
        environment = os.environ | {"TILEHARVEST_MAPS": str(maps), "TILEHARVEST_DATA": str(data)}
        return all([await _harvest_day(day, first_day, site, form, environment) for day in DAYS])


async def _harvest_day(
    day: int, first_day: date, site: Path, form: Form, environment: Mapping[str, str]
) -> bool:
    world, today = World(), first_day + timedelta(days=day - 1)
    publish(world, day, first_day, site, form)
    status = await _command(environment, "harvest", MAP, "-a", f"day={today}")
    if status:
        _say(f"day {today}: the harvest ended with exit status {status}")
        return False
    found = counts_of(await _harvests(environment), today)
    predicted = predicted_outcomes(world, day, form)
    if found is not None and not form.cut.is_square:
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
            fine = asyncio.run(_run(data, site, FORMS[options.renderer]))
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


def fresh_data_folder(folder: Path) -> None:
    """Makes the folder, or empties it if an earlier demo made it.

    Raises ConfigurationError if anything else is there; then nothing was touched.
    """
    if folder.is_symlink() or (folder.exists() and not _may_be_emptied(folder)):
        raise ConfigurationError(
            f"{folder} was not made by the demo, so nothing in it was touched;"
            " name a folder that is empty or does not exist yet: --data FOLDER"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # The marker is made first and never removed, so a run that ends half-way leaves a folder of the demo's.
    (folder / MARKER).touch()
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()


def _may_be_emptied(folder: Path) -> bool:
    return folder.is_dir() and ((folder / MARKER).is_file() or not any(folder.iterdir()))


def write_maps_file(folder: Path, url: str, renderer: str = "overviewer") -> Path:
    """Writes a `maps.toml` with the demo's map as its only entry, and returns its path.

    The audit is switched off: it draws tiles by lot, and the counts of a harvest are to be predicted.
    """
    file = folder / "maps.toml"
    drawn = "" if renderer == "overviewer" else f'renderer = "{renderer}"\n'
    entry = (
        f'[{MAP}]\nurl = "{url}"\n{drawn}timezone = "UTC"\naudit = 0  # so that the counts can be predicted\n'
    )
    file.write_text(entry, encoding="utf-8")
    return file


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
    """Runs a command of the program, shows its output, and returns its exit status."""
    command = (sys.executable, "-m", "tileharvest", *arguments)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
    output, _ = await process.communicate()
    _say(output.decode().rstrip())
    return process.returncode or 0


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
