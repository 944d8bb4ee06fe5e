"""The base of the commands, and how a command asks a site."""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from scrapy import signals
from scrapy.commands import ScrapyHelpFormatter
from scrapy.exceptions import UsageError

from tileharvest.commands.settings import quieten
from tileharvest.commands.terminal import failing_clearly, say
from tileharvest.errors import ConfigurationError, nearest
from tileharvest.spiders.log import write_printable_lines

if TYPE_CHECKING:
    import argparse

    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import BaseSettings, Settings

    from tileharvest.scheduler.crawl import Crawl
    from tileharvest.spiders.site_probe import SiteProbeSpider

Asking = TypeVar("Asking", bound="SiteProbeSpider")

_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
"""An option as a person writes it. A tile such as -3_-440_216 does not match."""

_LOOK: Final = 1.0
"""Seconds between two looks at what a crawl waits for."""

_UNBROKEN: Final = ":\N{NO-BREAK SPACE}"


class _HelpFormatter(ScrapyHelpFormatter):
    """Never breaks a line behind a colon. Scrapy would make a heading of a line that ends with one."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines = super()._split_lines(text.replace(": ", _UNBROKEN), width)
        return [line.replace(_UNBROKEN, ": ") for line in lines]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(text.replace(": ", _UNBROKEN), width, indent).replace(_UNBROKEN, ": ")


class ProjectCommand:
    """A command of the project. An error ends it with one line on stderr and an exit status.

    A command inherits from this class and from ScrapyCommand, in this order. It defines `answer`, and the
    attributes that have no value here. Most commands are about one map: `scrapy WORD [--json] NAME`. WORD is
    the name of the command's module. This class is not a ScrapyCommand itself, because Scrapy would offer it
    as a command.
    """

    form: ClassVar[str] = "[options] NAME"
    """The options and arguments behind the command's word, as the help shows them."""
    summary: ClassVar[str]
    """What the command does, in one line."""
    details: ClassVar[str] = ""
    """The sentences that `-h` shows behind the summary."""

    requires_project = True
    requires_crawler_process = False
    arguments: ClassVar[range] = range(1, 2)
    """The numbers of arguments that are allowed."""
    usage: ClassVar[str] = "say which: scrapy {word} NAME"
    """The message for another number of arguments. `{word}` stands for the command's word."""
    has_json: ClassVar[bool] = True
    """Whether the command has the option --json."""
    log_level: ClassVar[str | None] = None
    """The lowest level of the log that is shown, in short lines. None leaves the log to the settings."""
    settings: Settings | None
    exitcode: int
    _parser: argparse.ArgumentParser | None = None

    def syntax(self) -> str:
        return self.form

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        return f"{self.summary}. {self.details}" if self.details else self.summary

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        parser.formatter_class = _HelpFormatter
        self._parser = parser
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)  # type: ignore[misc]
        write_printable_lines()
        assert self.settings is not None
        if self.log_level is not None:
            quieten(self.settings, self.log_level)
        # Mistakes are told before Scrapy makes a crawler process, which writes to the log.
        with failing_clearly(self):
            self._refuse_unknown_options(args)
            self.check(self.settings, _without_dashes(args), opts)
        if self.exitcode:
            sys.exit(self.exitcode)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        with failing_clearly(self):
            self.answer(self.settings, _without_dashes(args), opts)

    def _refuse_unknown_options(self, args: list[str]) -> None:
        """Raises ConfigurationError for an option that the command does not have.

        Scrapy takes unknown options for arguments.
        """
        for argument in args:
            if argument == "--":
                return
            if _OPTION.match(argument):
                assert self._parser is not None
                option = argument.partition("=")[0]
                known = set(_OPTION.findall(self._parser.format_help()))
                hint = nearest(option, known, "-h lists the options")
                if "-a" in known and option.removeprefix("--") in _spider_arguments():
                    hint = f"write -a {option[2:]}={argument.partition('=')[2] or _following(args, argument)}"
                raise ConfigurationError(f"option {option} is not known; {hint}")

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Checks arguments, options and settings before anything is begun.

        Raises UsageError for a wrong number of arguments, and TileHarvestError for wrong values.
        """
        if len(args) not in self.arguments:
            word = type(self).__module__.rpartition(".")[2]
            raise UsageError(self.usage.format(word=word), print_help=False)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Does the command's work. A TileHarvestError becomes one line on stderr and the exit status."""
        raise NotImplementedError


def _spider_arguments() -> tuple[str, ...]:
    from tileharvest.harvest.settings import ARGUMENTS

    return ARGUMENTS


def _following(args: list[str], option: str) -> str:
    """Returns the word behind an option, or 1 if there is none."""
    behind = args[args.index(option) + 1 :]
    return behind[0] if behind and not behind[0].startswith("-") else "1"


def _without_dashes(args: list[str]) -> list[str]:
    """Returns the arguments without `--`. People write it before a tile whose name begins with a minus."""
    return [argument for argument in args if argument != "--"]


async def say_waits(crawl: Crawl) -> None:
    """Writes what the crawl waits for and until when, each time that changes. Runs until it is cancelled."""
    said = ""
    while True:
        await asyncio.sleep(_LOOK)
        wait = crawl.wait_but(said)
        if wait is not None:
            said = wait.what
            say(wait.in_words(asyncio.get_running_loop().time(), datetime.now().astimezone()))


def ask_site(process: CrawlerProcessBase | None, spider_class: type[Asking], **arguments: Any) -> Asking:
    """Crawls a site, and returns the spider. Raises the TileHarvestError with which the crawl has ended.

    The command must have `requires_crawler_process`, and can call this once.
    """
    from tileharvest.scheduler.crawl import crawl_of

    assert process is not None
    crawler = process.create_crawler(spider_class)

    def opened() -> None:
        saying = asyncio.ensure_future(say_waits(crawl_of(crawler)))

        def closed() -> None:
            saying.cancel()

        crawler.signals.connect(closed, signals.spider_closed, weak=False)

    crawler.signals.connect(opened, signals.spider_opened, weak=False)
    process.crawl(crawler, **arguments)
    process.start()
    assert isinstance(crawler.spider, spider_class)
    if crawler.spider.ending is not None:
        raise crawler.spider.ending
    return crawler.spider
