"""The command `python -m tileharvest.demo [--renderer NAME]`: harvests three days of a small world."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tileharvest.demo.forms import FORMS
from tileharvest.demo.publication import publish, serve
from tileharvest.demo.pyramid import changes
from tileharvest.demo.world import DAYS
from tileharvest.errors import ConfigurationError, ExitStatus, TileHarvestError
from tileharvest.renderers.registry import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from tileharvest.demo.forms import Form

MARKER: Final = ".tileharvest-demo"
"""The name of a file which says that the demo made this folder and may empty it."""
_MAP: Final = "demo"
_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C: 128 + SIGINT, as shells report it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo. The exit status is 0 only if all three days came out as predicted."""
    parser = argparse.ArgumentParser(prog="python -m tileharvest.demo", description=__doc__)
    data_help = "the demo's own data folder, made or emptied (%(default)s)"
    parser.add_argument("--data", type=Path, default=Path("data/demo"), help=data_help)
    names = [name for name in FORMS if name in RENDERERS]
    form_help = "the renderer in whose form the map is published (%(default)s)"
    parser.add_argument("--renderer", choices=names, default="overviewer", help=form_help)
    options = parser.parse_args(arguments)
    data = options.data.absolute()
    try:
        make_folder(data)
        with tempfile.TemporaryDirectory(prefix="tileharvest-demo-") as site:
            is_fine = asyncio.run(_run(data, Path(site), FORMS[options.renderer]))
    except TileHarvestError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    _say(how_to_see(data))
    return ExitStatus.DONE if is_fine else ExitStatus.ERROR


def make_folder(folder: Path) -> None:
    """Makes the folder, or empties it if an earlier demo made it.

    Raises ConfigurationError if anything else is there; then nothing was touched.
    """
    is_ours = folder.is_dir() and ((folder / MARKER).is_file() or not any(folder.iterdir()))
    if folder.is_symlink() or (folder.exists() and not is_ours):
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


async def _run(data: Path, site: Path, form: Form) -> bool:
    """Publishes the world into the folder `site` and harvests it, day by day.

    Returns whether every harvest counted what the world predicts.
    """
    # This is the only place that reads today's date.
    first_day = datetime.now(UTC).date() - timedelta(days=len(DAYS) - 1)
    async with serve(site) as url:
        # An audit would draw tiles by lot, and the counts are to be predicted.
        entry = (
            f'[{_MAP}]\nurl = "{url}{form.page}"\nrenderer = "{form.renderer}"\ntimezone = "UTC"\naudit = 0\n'
        )
        (data / "maps.toml").write_text(entry, encoding="utf-8")
        places = {"TILEHARVEST_MAPS": str(data / "maps.toml"), "TILEHARVEST_DATA": str(data)}
        environment = os.environ | places
        is_fine = all([await _harvest_day(day, first_day, site, form, environment) for day in DAYS])
        if form.town:
            await _command(environment, "areas", _MAP, "add", "the town", *form.town)
        return is_fine


async def _harvest_day(
    day: int, first_day: date, site: Path, form: Form, environment: Mapping[str, str]
) -> bool:
    today = first_day + timedelta(days=day - 1)
    publish(day, first_day, site, form)
    status, output = await _command(environment, "harvest", _MAP, "-a", f"day={today}")
    _say(output.rstrip())
    if status:
        _say(f"day {today}: the harvest ended with exit status {status}")
        return False
    _, listing = await _command(environment, "harvests", _MAP, "--json")
    differing = differences(json.loads(listing)[-1]["counts"], changes(day, form.cut))
    _say(f"day {today}: " + (f"NOT as predicted: {', '.join(differing)}" if differing else "as predicted"))
    return not differing


async def _command(environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Runs a command of the program. Returns its exit status and its output."""
    command = (sys.executable, "-m", "tileharvest", *arguments)
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def differences(counts: Mapping[str, int], predicted: Mapping[str, int]) -> list[str]:
    """Returns each number of tiles in which a harvest's counts differ from the prediction, with both."""
    codes = {"new": ("add",), "changed": ("upd", "rep"), "gone": ("gone",), "same": ("ign", "nMod", "skip")}
    found = {word: sum(counts.get(code, 0) for code in of) for word, of in codes.items()}
    return [
        f"{word} {number} instead of {predicted[word]}"
        for word, number in found.items()
        if number != predicted[word]
    ]


def how_to_see(data: Path) -> str:
    """Returns the command that shows the demo, as it works in the present folder."""
    here = Path.cwd()
    command, maps, folder = (
        path.relative_to(here) if path.is_relative_to(here) else path
        for path in (Path(sys.executable).with_name("tileharvest"), data / "maps.toml", data)
    )
    return f"see it: TILEHARVEST_MAPS={maps} TILEHARVEST_DATA={folder} {command} serve"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
