"""Scrapy's own tools in the project's folder work as in any project, and leave nothing behind."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.project import Project
from tests.servers.nginx import Nginx, nginx

MINE = ("-s", "SPIDER_MODULES=tests.end_to_end.user_spiders")
PAGES = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """A page with a link to each of the others, which have none."""
    folder = tmp_path_factory.mktemp("site")
    links = "".join(f'<a href="{number}.html">' for number in range(1, PAGES))
    (folder / "index.html").write_text(f"<html><title>Index</title>{links}</html>", encoding="utf-8")
    for number in range(1, PAGES):
        (folder / f"{number}.html").write_text(f"<title>Page {number}</title>", encoding="utf-8")
    with nginx(folder) as server:
        yield server


@pytest.fixture(autouse=True)
def log(site: Nginx) -> None:
    site.clear_log()


def asked(site: Nginx) -> list[str]:
    return [line.path for line in site.log() if line.path != "/robots.txt"]


def test_shell_asks_as_the_spider_of_maps_would(project: Project, site: Nginx) -> None:
    code = "response.css('title::text').get(), spider.name"
    done = project.scrapy("shell", "--nolog", "--spider", "overviewer", "-c", code, f"{site.url}/1.html")
    assert done.stdout == "('Page 1', 'overviewer')\n"
    assert [line.agent for line in site.log()] == ["TileHarvest/0.1"]
    assert not project.data.exists()


def test_parse_leaves_alone_what_waits_for_the_spider(project: Project, site: Nginx) -> None:
    crawl = ("crawl", "pages", *MINE, "-a", f"url={site.url}/index.html", "-s", "CONCURRENT_REQUESTS=1")
    # robots.txt is one of them.
    project.scrapy(*crawl, "-s", "CLOSESPIDER_PAGECOUNT=3")
    before = asked(site)
    assert 1 < len(before) < PAGES
    site.clear_log()
    project.scrapy("parse", *MINE, "--spider=pages", f"{site.url}/index.html")
    assert asked(site) == ["/index.html"]
    site.clear_log()
    project.scrapy(*crawl)
    assert sorted([*before, *asked(site)]) == sorted(
        ["/index.html", *(f"/{number}.html" for number in range(1, PAGES))]
    )
