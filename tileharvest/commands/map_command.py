"""What the commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from scrapy.exceptions import UsageError

from tileharvest.commands.settings import quieten
from tileharvest.commands.terminal import failing_clearly
from tileharvest.spiders.site_probe import SiteProbeSpider

if TYPE_CHECKING:
    import argparse

    from scrapy.crawler import CrawlerProcessBase
    from scrapy.settings import BaseSettings, Settings

Asking = TypeVar("Asking", bound=SiteProbeSpider)


class ProjectCommand:
    """A command that needs the project, and answers a question or says in one line why it cannot.

    A command inherits from this and from ScrapyCommand, in this order, and gives `syntax`, `short_desc`,
    `answer` and `usage`. This is no ScrapyCommand itself: Scrapy would offer it as one of the commands.
    """

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

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)  # type: ignore[misc]
        if self.log_level is not None:
            assert self.settings is not None
            quieten(self.settings, self.log_level)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self.check(args, opts)
        assert self.settings is not None
        with failing_clearly(self):
            self.answer(self.settings, args, opts)

    def check(self, args: list[str], opts: argparse.Namespace) -> None:
        """Raises UsageError for arguments that are not as `syntax` says."""
        if len(args) not in self.arguments:
            word = type(self).__module__.rpartition(".")[2]
            raise UsageError(self.usage.format(word=word), print_help=False)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Write what was asked for. Raises TileHarvestError, which becomes a line and an exit status."""
        raise NotImplementedError


class MapCommand(ProjectCommand):
    """`scrapy WORD [--json] NAME`, where WORD is the name of the command's module."""

    arguments = range(1, 2)
    usage = "say which map: scrapy {word} NAME"

    def syntax(self) -> str:
        return "[options] NAME"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        parser.add_argument("--json", action="store_true", help="write JSON for programs")


class SiteCommand(MapCommand):
    """A command about one map that asks its site."""

    requires_crawler_process = True
    log_level = "ERROR"
    crawler_process: CrawlerProcessBase | None

    def ask(self, spider_class: type[Asking], **arguments: Any) -> Asking:
        """Returns the spider after its crawl. Raises the TileHarvestError with which it has ended."""
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(spider_class)
        self.crawler_process.crawl(crawler, **arguments)
        self.crawler_process.start()
        assert isinstance(crawler.spider, spider_class)
        if crawler.spider.ending is not None:
            raise crawler.spider.ending
        return crawler.spider
