"""The example project of docs/scheduler.md, run by the installed wheel, far from the checkout."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.package.conftest import ROOT, Installed
from tests.servers.nginx import Nginx, nginx
from tileharvest.renderers.registry import RENDERERS

EXAMPLE: Final = ROOT / "examples" / "quotes"
PAGES: Final = 6
ADDRESSES: Final = ["/", *(f"/page/{number}/" for number in range(2, PAGES + 1))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """Pages with a quote each, in a row."""
    folder = tmp_path_factory.mktemp("site")
    for number, address in enumerate(ADDRESSES, 1):
        quote = f'<span class="text">Quote {number}</span><small class="author">Ada</small>'
        following = f'<li class="next"><a href="/page/{number + 1}/">Next</a></li>' if number < PAGES else ""
        (folder / address[1:]).mkdir(parents=True, exist_ok=True)
        page = f'<html><div class="quote">{quote}</div>{following}</html>'
        (folder / address[1:] / "index.html").write_text(page, encoding="utf-8")
    with nginx(folder) as server:
        yield server


@pytest.fixture
def example(tmp_path: Path, site: Nginx) -> Path:
    """A copy of the project."""
    site.clear_log()
    copy = tmp_path / "quotes"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", "data"))
    return copy


def asked(site: Nginx) -> list[str]:
    """The pages that were asked for since the last call."""
    pages = [line.path for line in site.log() if line.path != "/robots.txt"]
    site.clear_log()
    return pages


def crawl(installed: Installed, folder: Path, site: Nginx, *more: str) -> list[str]:
    """Runs the spider to its end; returns the texts of its items."""
    words = f"python -m scrapy crawl quotes -a site={site.url} -O items.jsonl".split()
    done = installed.run(folder, *words, *more)
    assert "Traceback" not in done.stderr
    lines = (folder / "items.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_each_page_is_asked_once_in_a_segment(installed: Installed, example: Path, site: Nginx) -> None:
    assert len(crawl(installed, example, site)) == PAGES
    assert asked(site) == ADDRESSES
    assert crawl(installed, example, site) == []
    assert asked(site) == []
    # And the command knows the spider.
    assert installed.run(example, "tileharvest", "list").stdout.split() == sorted([*RENDERERS, "quotes"])


def test_a_crawl_goes_on_where_it_was_stopped(installed: Installed, example: Path, site: Nginx) -> None:
    # robots.txt is one of them.
    first = crawl(installed, example, site, "-s", "CLOSESPIDER_PAGECOUNT=4", "-s", "CONCURRENT_REQUESTS=1")
    before = asked(site)
    assert 0 < len(before) < PAGES
    rest = crawl(installed, example, site)
    assert [*before, *asked(site)] == ADDRESSES
    assert sorted([*first, *rest]) == [f"Quote {number}" for number in range(1, PAGES + 1)]
    with closing(sqlite3.connect(example / "quotes.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM quotes").fetchone() == (PAGES,)
    # And the command counts them.
    found = json.loads(installed.run(example, "python", "-m", "scrapy", "queue", "quotes", "--json").stdout)
    assert (found["done"], found["failed"]) == (PAGES, 0)


def test_the_lines_without_the_add_on_are_enough(installed: Installed, example: Path, site: Nginx) -> None:
    lines = ("BOT_NAME = 'quotes'", "SPIDER_MODULES = ['quotes.spiders']")
    ours = (
        'SCHEDULER = "tileharvest.scheduler.Scheduler"',
        'SPIDER_MIDDLEWARES = {"tileharvest.scheduler.LeaseMiddleware": 10}',
    )
    page = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8")
    assert all(f"    {line}\n" in page for line in ours)
    (example / "quotes" / "settings.py").write_text("\n".join([*lines, *ours]), encoding="utf-8")
    assert len(crawl(installed, example, site)) == PAGES
    assert asked(site) == ADDRESSES
    found = json.loads(installed.run(example, "tileharvest", "queue", "quotes", "--json").stdout)
    assert found["done"] == PAGES
    assert len(list((example / "data" / "queues").glob("quotes:quotes:*.sqlite"))) == 1
