"""`scrapy add NAME URL`: probe a site and write its entry into maps.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from tileharvest.errors import SiteError
from tileharvest.maps.description import MapDescription, add_map, checked_entry
from tileharvest.spiders.site_probe import SiteProbeSpider
from tileharvest.terminal import failing_clearly, write_json, write_line
from tileharvest.wiring import maps_file, quieten

if TYPE_CHECKING:
    import argparse

    from tileharvest.maps.site import Site


class Command(ScrapyCommand):
    requires_project = True

    def syntax(self) -> str:
        return "[options] NAME URL"

    def short_desc(self) -> str:
        return "Probe a map's site and add it to maps.toml under a name of yours"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--layer", action="append", help="keep this layer only; may be repeated")
        parser.add_argument("--timezone", help="in which a day begins and ends (default: UTC)")
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        quieten(self.settings, "ERROR")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 2:
            raise UsageError(
                "say a name and the address of the map's page: scrapy add NAME URL", print_help=False
            )
        with failing_clearly(self):
            assert self.settings is not None
            file = maps_file(self.settings)
            entry: dict[str, Any] = {"url": args[1]}
            if opts.layer:
                entry["layers"] = opts.layer
            if opts.timezone:
                entry["timezone"] = opts.timezone
            description = checked_entry(file, args[0], entry)
            site = self._probed(description)
            add_map(file, args[0], entry)
            if opts.json:
                write_json(_plain(args[0], site))
            else:
                _write(args[0], str(file), site)

    def _probed(self, description: MapDescription) -> Site:
        assert self.crawler_process is not None
        crawler = self.crawler_process.create_crawler(SiteProbeSpider)
        self.crawler_process.crawl(crawler, description=description)
        self.crawler_process.start()
        spider = crawler.spider
        if isinstance(spider, SiteProbeSpider) and spider.site is not None:
            return spider.site
        ending = spider.ending if isinstance(spider, SiteProbeSpider) else None
        raise ending or SiteError(f"{description.url} was not probed to the end; nothing was added")


def _plain(name: str, site: Site) -> dict[str, Any]:
    return {
        "map": name,
        "renderer": site.renderer,
        "probed": site.probed,
        "layers": [
            {
                "layer": layer.name,
                "depth": layer.depth,
                "extension": layer.image_extension,
                "world": layer.world,
            }
            for layer in site.layers
        ],
    }


def _write(name: str, file: str, site: Site) -> None:
    write_line(f"added map '{name}' to {file}")
    for layer in site.layers:
        write_line(f"  layer {layer.name}: depth {layer.depth}, {layer.image_extension}")
    if site.probed:
        write_line("  the site has no configuration: depths were found by asking for tiles")
    write_line(f"next: scrapy harvest {name}")
