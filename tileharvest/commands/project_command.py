"""The base of the commands, and how a command asks a site."""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from scrapy.addons import AddonManager
from scrapy.commands import ScrapyCommand
from scrapy.crawler import CrawlerProcessBase
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from tileharvest.commands.terminal import failing_clearly, refuse, write_json, write_line
from tileharvest.errors import ConfigurationError, nearest, program
from tileharvest.queue.settings import queue_kind
from tileharvest.spiders.log import write_printable_lines
from tileharvest.spiders.site_probe import SiteProbeSpider

Options: TypeAlias = dict[str, dict[str, Any]]
"""Options by their names, each with what `ArgumentParser.add_argument` takes."""

Answer: TypeAlias = tuple[Any, Iterable[str]] | None
"""What a command writes on stdout in the end: a value of plain types with --json, or else lines. None if it
has written all of it."""

_FRACTIONS: Final = ("DNS_TIMEOUT", "DOWNLOAD_DELAY", "DOWNLOAD_TIMEOUT")
"""Scrapy's settings that may be fractions, although their usual values are whole numbers."""
_LEAST: Final = {"LEASE_SECONDS": 0.1, "PROGRESS_INTERVAL": 0.1} | dict.fromkeys(
    ("DEPTH_PRIORITY", "FEED_EXPORT_INDENT", "REDIRECT_PRIORITY_ADJUST", "RETRY_PRIORITY_ADJUST"), -1000
)
"""The least values of settings, of ours and of Scrapy's, for which it is not 0."""
_AS_USUAL: Final = ("TWISTED_REACTOR", "TWISTED_REACTOR_ENABLED", "FORCE_CRAWLER_PROCESS")
"""Scrapy's settings that a crawl of this program cannot change."""
_PORTS: Final = ("PROMETHEUS_PORT", "REDIS_PORT")
_CLASS: Final = re.compile(r"(\w+\.)+[A-Z]\w*")
"""The path of a class, as a usual value of a setting."""

_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
"""An option as a person writes it. A tile such as -3_-440_216 does not match."""


_EXITS: Final = (
    "exit status: 0 done, 1 an error, or stopped, 2 wrong usage, or another process harvests the map, 3 some"
    " tiles failed or images cannot be read, 4 ended by a budget, 5 the site cannot be reached or has moved"
)


def switch(meaning: str) -> dict[str, Any]:
    """Returns an option without a value."""
    return {"action": "store_true", "help": meaning}


def value(meaning: str, kind: Any = str, **more: Any) -> dict[str, Any]:
    """Returns an option with a value. `kind` reads it."""
    return {"help": meaning, "type": kind, **more}


def number(kind: type[float], least: float, most: float | None = None) -> Callable[[str], float]:
    """Returns what reads a number between two bounds, the upper of which may be missing."""

    def read(text: str) -> float:
        with suppress(ValueError):
            if least <= (found := kind(text)) and (most is None or found <= most):
                return found
        whole = "a whole number, " if issubclass(kind, int) else ""
        right = f"{least} or more" if most is None else f"{least} to {most}"
        raise argparse.ArgumentTypeError(f"{text} cannot be: write {whole}{right}")

    return read


class ProjectCommand(ScrapyCommand):
    """A command of the project. An error ends it with one line on stderr and an exit status.

    A command declares its arguments and options, and defines `answer`. Its name is that of its module.
    """

    # Scrapy offers each class as a command that says it is of the module in which it is found.
    __module__ = "tileharvest.commands"

    arguments: ClassVar[str] = "NAME"
    """The arguments, such as `NAME [FILE]`. `answer` finds each in `opts` by its word in small letters, None
    for one that is missing, and a list for the last one if `...` follows it."""
    form: ClassVar[str | None] = None
    """The arguments as the help shows them, if they are not simply `arguments`."""
    summary: ClassVar[str]
    """What the command does, in one line."""
    details: ClassVar[str] = ""
    """The sentences that `-h` shows behind the summary."""
    examples: ClassVar[tuple[str, ...]] = ()
    """What a person may write behind the command's word."""
    options: ClassVar[Options] = {}

    requires_project = True
    requires_crawler_process = False
    has_json: ClassVar[bool] = True
    """Whether the command has the option --json."""
    log_level: ClassVar[str | None] = None
    """The lowest level of the log that is shown, in short lines, unless the command line names another. None
    leaves the log to the settings."""
    settings: Any
    _parser: argparse.ArgumentParser

    @property
    def word(self) -> str:
        """The command's word."""
        return type(self).__module__.rpartition(".")[2]

    def short_desc(self) -> str:
        return self.summary

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        # The parser's own method would write the usage above the line.
        parser.error = refuse  # type: ignore[method-assign]
        parser.usage = f"{program()} {self.word} [options] {self.form or self.arguments}"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        width = shutil.get_terminal_size().columns - 2
        examples = "".join(f"\n  {program()} {self.word} {one}".rstrip() for one in self.examples)
        words = f"{self.summary}. {self.details}".strip()
        parser.description = f"{textwrap.fill(words, width)}\n\nexamples:{examples}"
        parser.epilog = f"\n{textwrap.fill(_EXITS, width)}"
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="write JSON for programs")
        for name, how in self.options.items():
            parser.add_argument(name, **how)
        # Scrapy adds its options to the parser and to a group. Both are this group, apart from ours.
        group: Any = parser.add_argument_group("Scrapy's options")
        group.add_argument_group = lambda title: group
        super().add_options(group)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            super().process_options(args, opts)
        except OSError as error:
            refuse(f"the file of --pidfile cannot be written: {error}")
        settings = self.settings
        is_named = (settings.getpriority("LOG_LEVEL") or 0) >= SETTINGS_PRIORITIES["cmdline"]
        if self.log_level is not None and not is_named:
            settings.set("LOG_LEVEL", self.log_level, priority="cmdline")
            settings.set("LOG_FORMAT", "%(levelname)s: %(message)s", priority="cmdline")
        # Mistakes are reported before Scrapy makes a crawler process, which writes to the log.
        with failing_clearly(self):
            self._refuse_unknown_options(args)
            _check_settings(settings)
            queue_kind(settings)
            # With other values, nothing of ours would ever begin.
            for name in _AS_USUAL if self.requires_crawler_process else ():
                said, usual = settings[name], getattr(default_settings, name)
                if str(said) != str(usual):
                    raise ConfigurationError(f"{name} {said} cannot be: take it out, or write {usual}")
            # Scrapy does this only when it makes a crawler process. The add-on brings the spiders of maps.
            AddonManager.load_pre_crawler_settings(settings)
            # People write -- before a tile whose name begins with a minus.
            self._read([argument for argument in args if argument != "--"], opts)
            self.check(opts)
        if self.exitcode:
            sys.exit(self.exitcode)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        write_printable_lines()
        with failing_clearly(self):
            answer = self.answer(opts)
            if answer is None:
                return
            value, lines = answer
            if self.has_json and opts.json:
                write_json(value)
            else:
                for line in lines:
                    write_line(line)

    def check(self, opts: argparse.Namespace) -> None:
        """Checks arguments, options and settings before anything is begun. Raises TileHarvestError."""

    def answer(self, opts: argparse.Namespace) -> Answer:
        """Does the command's work. A TileHarvestError becomes one line on stderr and the exit status."""
        raise NotImplementedError

    def wrong_usage(self) -> ConfigurationError:
        """Returns the error about arguments that the command does not have."""
        return ConfigurationError(f"write {program()} {self.word} {self.form or self.arguments}".rstrip())

    def _read(self, args: list[str], opts: argparse.Namespace) -> None:
        """Puts the arguments into `opts`. Raises ConfigurationError for too few or too many."""
        words, left = self.arguments.split(), list(args)
        for word in words:
            name = re.findall(r"\w+", word.lower())[0]
            if not left and not word.startswith("["):
                raise self.wrong_usage()
            if "..." in word:
                setattr(opts, name, left)
                left = []
            else:
                setattr(opts, name, left.pop(0) if left else None)
        if left:
            raise self.wrong_usage()

    def _refuse_unknown_options(self, args: list[str]) -> None:
        """Raises ConfigurationError for an option that the command does not have.

        Scrapy takes unknown options for arguments.
        """
        for argument in args:
            if argument == "--":
                return
            if _OPTION.match(argument):
                option = argument.partition("=")[0]
                known = set(_OPTION.findall(self._parser.format_help()))
                hint = nearest(option, known, "-h lists the options")
                raise ConfigurationError(f"option {option} is not known; {hint}")


def _check_settings(settings: BaseSettings) -> None:
    """Raises ConfigurationError for a setting of Scrapy's or of ours that is no number, no truth value, no
    class, no level of the log or no file that can be written, where it must be one."""
    # Loaded here, because that module reads the environment, which a project's own settings may change first.
    from tileharvest import settings as ours  # noqa: PLC0415

    for name, usual in {**vars(default_settings), **vars(ours)}.items():
        # None is 0 for Scrapy, and the usual value for us. What has an annotation may be more than its usual
        # value is, and is checked by the room that reads it.
        if settings[name] is not None and name not in ours.__annotations__:
            try:
                _read(settings, name, usual)
            except argparse.ArgumentTypeError as error:
                raise ConfigurationError(f"{name} {error}") from None
    levels = logging.getLevelNamesMapping()
    if isinstance(level := settings["LOG_LEVEL"], str) and level not in levels:
        raise ConfigurationError(f"LOG_LEVEL {level!r} cannot be: write one of {', '.join(levels)}")


def _read(settings: BaseSettings, name: str, usual: Any) -> None:
    """Reads a setting as what its usual value is. Raises ArgumentTypeError if it cannot be read so."""
    said = str(settings[name])
    if name in _PORTS:
        number(int, 0, 65535)(said or "0")
    elif isinstance(usual, bool):
        try:
            settings.getbool(name)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{said} cannot be: write True or False") from None
    elif isinstance(usual, int | float):
        number(float if name in _FRACTIONS else type(usual), _LEAST.get(name, 0))(said)
    elif name == "LOG_FILE":
        try:
            Path(said).open("a", encoding=settings["LOG_ENCODING"]).close()
        except (LookupError, OSError) as error:
            raise argparse.ArgumentTypeError(f"{said} cannot be written: {error}") from None
    elif settings.getpriority(name):
        for path in _paths(settings, name, usual):
            try:
                (import_module if name == "SPIDER_MODULES" else load_object)(path)
            except (ImportError, NameError, TypeError, ValueError) as error:
                raise argparse.ArgumentTypeError(f"{path} cannot be loaded: {error}") from None


def _paths(settings: BaseSettings, name: str, usual: Any) -> list[Any]:
    """Returns the classes, or the modules, that a setting names."""
    if name == "SPIDER_MODULES":
        return settings.getlist(name)
    if name == "ADDONS" or hasattr(default_settings, f"{name}_BASE"):
        # The value names a download handler, and the key any other part.
        named = settings.getdict(name).items()
        return [value if isinstance(value, str) else key for key, value in named if value is not None]
    # A policy may be named by a word, too.
    is_class = isinstance(usual, str) and _CLASS.fullmatch(usual) and name != "REFERRER_POLICY"
    return [settings[name]] if is_class or name == "SEGMENT_RESOLVER" else []


def ask_site(process: CrawlerProcessBase | None, **arguments: Any) -> SiteProbeSpider:
    """Looks at a site, and returns the spider that did. Raises the TileHarvestError that has ended its crawl.

    The command must have `requires_crawler_process`, and can call this once.
    """
    assert process is not None
    # A person reads what the crawl waits for, and nothing else of its log.
    waits = logging.StreamHandler()
    waits.addFilter(lambda record: record.levelno == logging.INFO)
    logging.getLogger("tileharvest.scheduler.crawl").addHandler(waits)
    crawler = process.create_crawler(SiteProbeSpider)
    process.crawl(crawler, **arguments)
    process.start()
    assert isinstance(crawler.spider, SiteProbeSpider)
    if crawler.spider.ending is not None:
        raise crawler.spider.ending
    return crawler.spider
