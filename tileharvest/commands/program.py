"""The program `tileharvest`, which has all commands in any folder."""

from __future__ import annotations

import configparser
import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, Final, NoReturn

from scrapy.cmdline import execute
from scrapy.settings import Settings
from scrapy.utils.conf import closest_scrapy_cfg, init_env
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import ENVVAR, get_project_settings

from tileharvest import commands
from tileharvest.commands.terminal import close_output, refuse, write_line
from tileharvest.errors import ExitStatus, nearest, program
from tileharvest.extensions.addon import TileHarvest

_OURS: Final = "tileharvest.settings"


def main() -> None:
    """Runs the command of the command line, and ends the process with its exit status.

    `scrapy` itself has our commands only within a project that names them. This program always has them. In
    the folder of a Scrapy project, and below it, the settings of that project count, as if they named the
    add-on. Elsewhere our own settings count.
    """
    try:
        init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    except configparser.Error as error:
        refuse(f"scrapy.cfg cannot be read: {error}")
    is_ours = os.environ.setdefault(ENVVAR, _OURS) == _OURS
    try:
        settings = get_project_settings()
    except (ImportError, ValueError) as error:
        # The settings of another project, whose name is wrong, or a part of which cannot be.
        refuse(f"the settings {os.environ[ENVVAR]} cannot be loaded: {error}")
    if is_ours and not closest_scrapy_cfg():
        # `genspider` writes a new spider into the present folder, not among the installed files.
        settings["NEWSPIDER_MODULE"] = ""
    if not is_ours:
        settings.setdefault_in_component_priority_dict("ADDONS", TileHarvest, 300)
        TileHarvest.update_pre_crawler_settings(settings)
    run(sys.argv, settings)


def run(argv: list[str], settings: Settings) -> NoReturn:
    """Runs the command of a command line with these settings. Ends with SystemExit."""
    try:
        try:
            execute(_checked(argv, settings), settings)
            raise AssertionError("Scrapy ends with SystemExit")
        finally:
            sys.stdout.flush()
    except OSError as error:
        close_output(error)
        sys.exit(ExitStatus.ERROR)


def _checked(argv: list[str], settings: Settings) -> list[str]:
    """Returns the command line, with the command `version` in place of `--version`.

    Scrapy will load the module of the command alone, as to load all of ours takes a second. Without a command
    it lists the commands and ends the process. Ends it with status 2 if there is no such command.
    """
    word = next((word for word in argv[1:] if not word.startswith("-")), None)
    if word is None and "--version" in argv:
        word, argv = "version", [argv[0], "version"]
    if word in (None, "help"):
        write_line(f"{program()} COMMAND [options]: the time machine for web maps")
        write_line("")
        for known, command in sorted(_commands(commands.__name__).items()):
            write_line(f"  {known:<12} {command().short_desc()}")
        write_line("")
        write_line(f"{program()} COMMAND -h says more; Scrapy's own commands, such as shell, work too")
        sys.exit(0)
    module = f"{commands.__name__}.{word}"
    names = [one.name for one in iter_modules(commands.__path__)]
    try:
        is_ours = word in names and hasattr(import_module(module), "Command")
    except ModuleNotFoundError as error:
        # Who has installed the scheduler alone has no commands.
        refuse(f"{error.name} is not installed: the commands need TileHarvest with its extra `maps`")
    settings.set("COMMANDS_MODULE", module if is_ours else "", priority="cmdline")
    others = [one.name for one in entry_points(group="scrapy.commands")]
    if not is_ours and word not in (scrapys := [*_commands("scrapy.commands"), *others]):
        hint = nearest(word, [*_commands(commands.__name__), *scrapys], f"{program()} alone lists them")
        refuse(f"there is no command '{word}'; {hint}")
    return argv


def _commands(package: str) -> dict[str, Any]:
    """Returns the classes of the commands in a package, by their words."""
    return {
        module.__name__.rpartition(".")[2]: module.Command
        for module in walk_modules_iter(package)
        if hasattr(module, "Command")
    }
