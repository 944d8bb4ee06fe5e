"""`tileharvest crawl SPIDER`: Scrapy's own command, with an exit status that says how the crawl ended."""

from __future__ import annotations

from argparse import Namespace

from scrapy.commands import crawl
from scrapy.spiderloader import get_spider_loader

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.errors import ConfigurationError, ExitStatus, nearest, program
from tileharvest.harvest.settings import harvest_for
from tileharvest.politeness.settings import rules_for
from tileharvest.scheduler.crawl import crawl_of
from tileharvest.spiders.tiles import TileSpider


class Command(ProjectCommand, crawl.Command):
    """Runs any spider of the project as Scrapy does. The arguments of a spider of tiles are checked first."""

    arguments = "SPIDER"
    summary = "Run a spider of the current project, by name"
    details = "A spider that harvests no map ends with 0, or with 1 if its queue failed or it was stopped."
    examples = ("overviewer -a map=my-server", "quotes -O quotes.json")
    requires_crawler_process = True
    has_json = False

    def check(self, opts: Namespace) -> None:
        spiders, name = get_spider_loader(self.settings), opts.spider
        if name not in spiders.list():
            hint = nearest(name, spiders.list(), f"`{program()} list` names those that there are")
            raise ConfigurationError(f"there is no spider '{name}'; {hint}")
        if issubclass(spiders.load(name), TileSpider):
            # The crawl would report the same mistakes among the lines of its log.
            description = harvest_for(self.settings, opts.spargs).description
            rules_for(self.settings, description)

    def answer(self, opts: Namespace) -> None:
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(opts.spider)
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        failed = self.crawler_process.bootstrap_failed
        self.exitcode = ExitStatus.ERROR if failed else crawl_of(crawler).exit_status
