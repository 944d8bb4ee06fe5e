"""Small sites such as Scrapy's tutorial crawls: quotes with tags, a shop of books, a login."""

from pathlib import Path
from typing import Final

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

_TAGS: Final = ("life", "love", "books", "truth")
_CATEGORIES: Final = ("travel", "poetry", "mystery")
_PER_PAGE: Final = 4


def write_sites(folder: Path, address: str) -> None:
    """Writes the sites, and some pages of which each shows one thing, into the folder that nginx serves at
    this address."""
    files = {
        "/robots.txt": "User-agent: *\nDisallow: /private/\n",
        "/login/index.html": "<form method=post action=/session/><input name=csrf type=hidden value=k7>"
        "<input name=user></form>",
        "/inside/index.html": _page("inside", "/inside/one.html", "/inside/two.html"),
        "/inside/one.html": _page("one"),
        "/inside/two.html": _page("two"),
        "/chain/0.html": _page("0", "/chain/1.html", "/moved.html", "/broken.html"),
        "/shop/index.html": _page("shop", *(f"/shop/category/{name}/" for name in _CATEGORIES)),
    }
    for number in range(1, 6):
        files[f"/chain/{number}.html"] = _page(str(number), f"/chain/{number + 1}.html", "/chain/0.html")
    files |= {f"/api/{number}.json": f'{{"number": {number}}}' for number in range(3)}
    quotes = [(_TAGS[number % len(_TAGS)], number) for number in range(160)]
    for path, tags in (("/quotes", _TAGS), *((f"/quotes/tag/{tag}", (tag,)) for tag in _TAGS)):
        files |= _pages(path, [_quote(tag, number) for tag, number in quotes if tag in tags])
    books = [f"/shop/book/{number}.html" for number in range(90)]
    for number, path in enumerate(books):
        price = f"<p class=price>{number}.50</p>"
        files[path] = f"<h1>Book {number}</h1>{price}<a href=/shop/index.html>home</a>"
    for start, name in enumerate(_CATEGORIES):
        links = [f"<a href={path}>{path}</a>" for path in books[start :: len(_CATEGORIES)]]
        files |= _pages(f"/shop/category/{name}", links)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    places = "".join(f"<url><loc>{address}{path}</loc></url>" for path in books[:5])
    files["/sitemap.xml"] = f'<?xml version="1.0"?><urlset xmlns="{schema}">{places}</urlset>'
    for path, text in files.items():
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _page(title: str, *links: str) -> str:
    return f"<title>{title}</title>" + "".join(f"<a href='{link}'>{link}</a>" for link in links)


def _quote(tag: str, number: int) -> str:
    return (
        f"<div class=quote><span class=text>Quote {number}.</span>"
        f"<a class=tag href=/quotes/tag/{tag}/>{tag}</a></div>"
    )


def _pages(path: str, parts: list[str]) -> dict[str, str]:
    """Returns pages of some parts each, which lead from one to the next. The first one is that of the
    folder."""
    found = {}
    for number, start in enumerate(range(0, len(parts), _PER_PAGE), 1):
        is_last = start + _PER_PAGE >= len(parts)
        following = "" if is_last else f"<li class=next><a href={path}/page/{number + 1}/>next</a></li>"
        found[f"{path}/page/{number}/index.html"] = "".join(parts[start : start + _PER_PAGE]) + following
    return {f"{path}/index.html": found[f"{path}/page/1/index.html"], **found}
