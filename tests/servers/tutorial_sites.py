"""Small sites such as Scrapy's tutorial crawls: quotes with authors, tags and a login, and books."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

QUOTES: Final = 160
PER_PAGE: Final = 4
AUTHORS: Final = ("Ada", "Bo", "Cleo", "Dag", "Eve", "Finn")
TAGS: Final = ("life", "love", "books", "truth")
BOOKS: Final = 90
BOOKS_PER_PAGE: Final = 4
CATEGORIES: Final = ("travel", "poetry", "mystery")
CHAIN: Final = 6
"""Pages in a row, each of which leads to the next."""

SERVER: Final = """
    location /api/ { error_page 405 =200 $uri; }
    location = /session/ {
        if ($request_method != POST) { return 405; }
        add_header Set-Cookie "session=open; Path=/";
        return 302 /inside/;
    }
    location /inside/ { if ($cookie_session != "open") { return 403; } }
    location = /moved.html { return 301 /chain/1.html; }
    location = /broken.html { return 404; }
"""
"""Directives for nginx: it takes POST for the API, and shows what is inside to those who have logged in."""


def write_sites(folder: Path) -> None:
    """Write both sites, and some pages of which each shows one thing, into the folder that nginx serves."""
    _write_quotes(folder)
    _write_books(folder)
    _page(folder / "chain" / "0.html", "0", ["/chain/1.html", "/moved.html", "/broken.html"])
    for number in range(1, CHAIN):
        _page(
            folder / "chain" / f"{number}.html", str(number), [f"/chain/{number + 1}.html", "/chain/0.html"]
        )
    _page(folder / "chain" / f"{CHAIN}.html", str(CHAIN), [])
    _page(folder / "mixed.html", "mixed", ["/private/secret.html", "/chain/2.html"])
    _page(folder / "private" / "secret.html", "secret", [])
    for number in range(3):
        _write(folder / "api" / f"{number}.json", f'{{"number": {number}}}')
    _write(folder / "robots.txt", "User-agent: *\nDisallow: /private/\n")


def _write_quotes(folder: Path) -> None:
    quotes = [
        (f"Quote {number}.", AUTHORS[number % len(AUTHORS)], TAGS[number % len(TAGS)])
        for number in range(QUOTES)
    ]
    _write_quote_pages(folder / "quotes", "/quotes", quotes)
    for tag in TAGS:
        of_tag = [quote for quote in quotes if quote[2] == tag]
        _write_quote_pages(folder / "quotes" / "tag" / tag, f"/quotes/tag/{tag}", of_tag)
    for author in AUTHORS:
        _write(
            folder / "quotes" / "author" / author / "index.html", f"<h3>{author}</h3><a href=/quotes/></a>"
        )
    form = "<form method=post action=/session/><input name=csrf type=hidden value=k7><input name=user></form>"
    _write(folder / "login" / "index.html", form)
    _page(folder / "inside" / "index.html", "inside", ["/inside/one.html", "/inside/two.html"])
    for name in ("one", "two"):
        _page(folder / "inside" / f"{name}.html", name, [])


def _write_quote_pages(folder: Path, path: str, quotes: list[tuple[str, str, str]]) -> None:
    """Write pages of some quotes each; the first one is that of the folder."""
    pages = [quotes[start : start + PER_PAGE] for start in range(0, len(quotes), PER_PAGE)]
    for number, page in enumerate(pages, 1):
        lines = [
            f"<div class=quote><span class=text>{text}</span><a class=author href=/quotes/author/{author}/>"
            f"{author}</a><a class=tag href=/quotes/tag/{tag}/>{tag}</a></div>"
            for text, author, tag in page
        ]
        if number < len(pages):
            lines.append(f"<li class=next><a href={path}/page/{number + 1}/>next</a></li>")
        _write(folder / "page" / str(number) / "index.html", "".join(lines))
        if number == 1:
            _write(folder / "index.html", "".join(lines))


def _write_books(folder: Path) -> None:
    shop = folder / "shop"
    by_category: dict[str, list[str]] = {name: [] for name in CATEGORIES}
    for number in range(BOOKS):
        by_category[CATEGORIES[number % len(CATEGORIES)]].append(f"/shop/book/{number}.html")
        home = "<a href=/shop/index.html>home</a>"
        text = f"<h1>Book {number}</h1><p class=price>{number}.50</p>{home}"
        _write(shop / "book" / f"{number}.html", text)
    _page(shop / "index.html", "shop", [f"/shop/category/{name}/1.html" for name in CATEGORIES])
    for name, books in by_category.items():
        pages = [books[start : start + BOOKS_PER_PAGE] for start in range(0, len(books), BOOKS_PER_PAGE)]
        for number, page in enumerate(pages, 1):
            following = [f"/shop/category/{name}/{number + 1}.html"] if number < len(pages) else []
            _page(shop / "category" / name / f"{number}.html", name, [*page, *following, "/shop/index.html"])
    addresses = "".join(f"<url><loc>{{site}}/shop/book/{number}.html</loc></url>" for number in range(5))
    _write(folder / "sitemap.txt", addresses)


def write_sitemap(folder: Path, site: str) -> None:
    """Write the sitemap, which names whole addresses. `site` is that of the server."""
    addresses = (folder / "sitemap.txt").read_text(encoding="utf-8").replace("{site}", site)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    _write(folder / "sitemap.xml", f'<?xml version="1.0"?><urlset xmlns="{schema}">{addresses}</urlset>')


def _page(file: Path, title: str, links: Iterable[str]) -> None:
    _write(file, f"<title>{title}</title>" + "".join(f"<a href='{link}'>{link}</a>" for link in links))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
