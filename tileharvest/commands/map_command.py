"""What the commands have in common."""

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
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.log import write_printable_lines
from tileharvest.spiders.site_probe import SiteProbeSpider

if TYPE_CHECKING:
    import argparse

    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import BaseSettings, Settings

    from tileharvest.scheduler.crawl import Crawl

Asking = TypeVar("Asking", bound=SiteProbeSpider)

_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
"""An option as a person writes it. A tile such as -3_-440_216 is none."""

_LOOK: Final = 1.0
"""Seconds between two looks at what a person waits for."""

_UNBROKEN: Final = ":\N{NO-BREAK SPACE}"


class _HelpFormatter(ScrapyHelpFormatter):
    """Breaks no line behind a colon: Scrapy makes a heading of each line that ends with one."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        lines = super()._split_lines(text.replace(": ", _UNBROKEN), width)
        return [line.replace(_UNBROKEN, ": ") for line in lines]

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(text.replace(": ", _UNBROKEN), width, indent).replace(_UNBROKEN, ": ")


class ProjectCommand:
    """A command that needs the project, and answers a question or says in one line why it cannot.

    A command inherits from this and from ScrapyCommand, in this order, and gives `answer` and what has no
    value here. This is no ScrapyCommand itself: Scrapy would offer it as one of the commands.
    """

    form: ClassVar[str]
    """What is written behind the command's word."""
    summary: ClassVar[str]
    """What the command does, in one line."""
    details: ClassVar[str] = ""
    """What `-h` says behind that."""

    requires_project = True
    requires_crawler_process = False
    arguments: ClassVar[range]
    """How many there may be."""
    usage: ClassVar[str]
    """What is said where there are more or fewer; `{word}` is the command's."""
    log_level: ClassVar[str | None] = None
    """From which level on the log is shown, in short lines; None: as the settings say."""
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

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)  # type: ignore[misc]
        write_printable_lines()
        assert self.settings is not None
        if self.log_level is not None:
            quieten(self.settings, self.log_level)
        # Before Scrapy makes anything of its own, and says so in the log.
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
        """Raises ConfigurationError. Scrapy leaves what it does not know among the arguments."""
        for argument in args:
            if argument == "--":
                return
            if _OPTION.match(argument):
                assert self._parser is not None
                option = argument.partition("=")[0]
                known = set(_OPTION.findall(self._parser.format_help()))
                hint = nearest(option, known, "-h lists the options")
                raise ConfigurationError(f"option {option} is not known; {hint}")

    def check(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Raises UsageError for arguments that are not as `syntax` says, and TileHarvestError for what cannot
        be, before anything is begun."""
        if len(args) not in self.arguments:
            word = type(self).__module__.rpartition(".")[2]
            raise UsageError(self.usage.format(word=word), print_help=False)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Writes what was asked for. Raises TileHarvestError, which becomes a line and an exit status."""
        raise NotImplementedError


def _without_dashes(args: list[str]) -> list[str]:
    """Returns the arguments without `--`, which people write before a tile whose name begins with a minus."""
    return [argument for argument in args if argument != "--"]


class MapCommand(ProjectCommand):
    """`scrapy WORD [--json] NAME`, where WORD is the name of the command's module."""

    arguments = range(1, 2)
    usage = "say which: scrapy {word} NAME"
    form = "[options] NAME"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="write JSON for programs")


async def say_waits(crawl: Crawl) -> None:
    """Says what a person waits for, and until when, until it is cancelled."""
    said = ""
    while True:
        await asyncio.sleep(_LOOK)
        wait = crawl.wait_but(said)
        if wait is not None:
            said = wait.what
            say(wait.in_words(asyncio.get_running_loop().time(), datetime.now().astimezone()))


def ask_site(process: CrawlerProcessBase | None, spider_class: type[Asking], **arguments: Any) -> Asking:
    """Returns the spider after its crawl. Raises the TileHarvestError with which it has ended.

    For commands with `requires_crawler_process`, of which each can ask once.
    """
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
