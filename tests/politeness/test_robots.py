from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from urllib.robotparser import RobotFileParser

import pytest

from tileharvest.maps.rates import LONGEST, NO_GAP, Gap
from tileharvest.politeness.robots import Robots, origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SITE = "http://map.example.net"

# Section 5.1 of RFC 9309, with our name as one of its crawlers.
PUBLISHED = b"""User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: TileHarvest
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


def robots(*lines: str) -> Robots:
    return Robots.of(SITE, "\n".join(lines).encode())


def allowed(rules: Robots, *paths: str) -> list[bool]:
    return [rules.allows(SITE + path) for path in paths]


def test_the_group_of_our_name_goes_before_that_of_all() -> None:
    rules = Robots.of(SITE, PUBLISHED)
    assert allowed(rules, "/example/page.html", "/example/allowed.gif") == [True, True]
    assert allowed(rules, "/", "/publications/a.html", "/example/disallowed.gif") == [False, False, False]


def test_the_group_of_all_holds_where_none_has_our_name() -> None:
    rules = Robots.of(SITE, PUBLISHED.replace(b"TileHarvest", b"foobot"))
    assert allowed(rules, "/publications/a.html", "/example/page.html", "/a.gif", "/a.png") == [
        True,
        False,
        False,
        True,
    ]


def test_it_allows_what_another_parser_allows() -> None:
    """Python's own knows no wildcards and takes the first rule that fits: without those, and with no two
    rules that fit one address, both must agree."""
    random = Random("robots")
    for _ in range(50):
        folders = random.sample(["/a/", "/b/", "/c/", "/world-day/", "/world night/"], k=3)
        lines = [f"User-agent: {random.choice(['*', 'tileharvest', 'other'])}"]
        lines += [f"{random.choice(['Disallow', 'Allow'])}: {folder}" for folder in folders]
        other = RobotFileParser()
        other.parse(lines)
        paths = [f"{folder}0/3.png" for folder in (*folders, "/d/")]
        assert allowed(robots(*lines), *paths) == [
            other.can_fetch("TileHarvest", SITE + path) for path in paths
        ]


@pytest.mark.parametrize(
    "content",
    [b"", b"<!DOCTYPE html><title>Welcome</title>", b"User-agent: *\nDisallow:\n# Disallow: /\n"],
    ids=["empty", "a page", "nothing forbidden"],
)
def test_what_forbids_nothing_is_open(content: bytes) -> None:
    rules = Robots.of(SITE, content)
    assert rules.allows(f"{SITE}/world-day/0.png")
    assert not rules.rules


@pytest.mark.parametrize("word", ["Disallow", "disallow", "Dissallow", "diasllow", "  DISALLOW "])
def test_what_forbids_something_is_not_open(word: str) -> None:
    rules = robots("User-agent: *", f"{word}: /world-day/")
    assert rules.rules
    assert not rules.allows(f"{SITE}/world-day/0.png")


def test_a_mark_of_the_encoding_before_the_first_line_hides_no_rule() -> None:
    rules = Robots.of(SITE, b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n")
    assert not rules.allows(f"{SITE}/world-day/0.png")


def test_bytes_that_are_no_text_leave_the_rules_around_them() -> None:
    rules = Robots.of(SITE, b"User-agent: *\n# caf\xe9\nDisallow: /a/\n")
    assert allowed(rules, "/a/0.png", "/b/0.png") == [False, True]


def test_of_a_file_that_is_too_long_so_much_is_read_as_the_standard_asks_for() -> None:
    comment = "# " + "a" * 500 * 1024
    rules = robots("User-agent: *", comment, "Disallow: /a/", comment, "Disallow: /b/")
    assert allowed(rules, "/a/0.png", "/b/0.png") == [False, True]


@pytest.mark.parametrize(
    ("lines", "gap"),
    [
        ([], NO_GAP),
        (["Crawl-delay: 2.5"], Gap(2.5, 2.5)),
        (["Request-rate: 1/5"], Gap(5, 5)),
        (["Request-rate: 30/1m", "Crawl-delay: 1"], Gap(2, 2)),
        (["Request-rate: 30/1m", "Crawl-delay: 3"], Gap(3, 3)),
        (["Crawl-delay: soon"], NO_GAP),
        (["Crawl-delay: 1000000"], Gap(LONGEST, LONGEST)),
    ],
)
def test_the_longer_of_both_gaps_is_kept(lines: Sequence[str], gap: Gap) -> None:
    assert robots("User-agent: *", *lines).gap == gap


def test_the_gap_of_others_is_not_ours() -> None:
    assert robots("User-agent: slurp", "Crawl-delay: 9").gap == NO_GAP


def test_each_site_has_its_own_rules_and_the_longest_gap_holds() -> None:
    tiles = "http://tiles.example.net:8080"
    first = robots("User-agent: *", "Disallow: /a/", "Crawl-delay: 1")
    second = Robots.of(tiles, b"User-agent: *\nDisallow: /b/\nCrawl-delay: 2")
    both = first.beside(second)
    assert [both.allows(f"{site}{path}") for site in (SITE, tiles) for path in ("/a/0.png", "/b/0.png")] == [
        False,
        True,
        True,
        False,
    ]
    assert both.gap == Gap(2, 2)


def test_a_site_that_is_not_known_allows_everything() -> None:
    assert robots("User-agent: *", "Disallow: /").allows("https://map.example.net/0.png")


def test_a_site_is_scheme_host_and_port() -> None:
    assert origin_of("https://map.example.net:8443/a/b.png?c=1") == "https://map.example.net:8443"
