"""What a site's robots.txt says to us, by the rules of RFC 9309, and where a site may send us."""

from collections.abc import Sequence
from typing import Final

import pytest

from tileharvest.maps.rates import LONGEST, NO_DELAY, Delay
from tileharvest.politeness.neighbours import refused_network
from tileharvest.politeness.robots import Robots, origin_of

SITE: Final = "http://map.example.net"

OURS: Final = b"""User-agent: *
Disallow: *.gif$
Allow: /a/

User-agent: %b
Disallow: /
Allow: /a/page.html
"""
_FOR_ALL: Final = b"User-agent: *\n"
_COMMENT: Final = b"# " + b"a" * 500 * 1024 + b"\n"


@pytest.mark.parametrize(
    ("content", "allowed", "forbidden"),
    [
        pytest.param(OURS % b"TileHarvest", ["/a/page.html"], ["/", "/b.png"], id="our name"),
        pytest.param(OURS % b"foobot", ["/", "/a/b.png"], ["/b.gif"], id="the group of all"),
        pytest.param(b"<!DOCTYPE html><title>Welcome</title>", ["/a.png"], [], id="a page"),
        pytest.param(_FOR_ALL + b"Disallow:\n# Disallow: /\n", ["/a.png"], [], id="nothing forbidden"),
        pytest.param(_FOR_ALL + b"diasllow: /a/", ["/b/"], ["/a/0.png"], id="misspelt"),
        pytest.param(b"\xef\xbb\xbf" + _FOR_ALL + b"Disallow: /", [], ["/a.png"], id="mark of the encoding"),
        pytest.param(_FOR_ALL + b"# caf\xe9\nDisallow: /a/\n", ["/b/"], ["/a/"], id="bytes that are no text"),
        pytest.param(
            _FOR_ALL + _COMMENT + b"Disallow: /a/\n" + _COMMENT + b"Disallow: /b/",
            ["/b/"],
            ["/a/"],
            id="more than the standard asks to read",
        ),
    ],
)
def test_what_is_allowed(content: bytes, allowed: list[str], forbidden: list[str]) -> None:
    rules = Robots()
    rules.read(SITE, 200, content)
    assert [path for path in (*allowed, *forbidden) if rules.allows(SITE + path)] == allowed
    # Nothing is looked up where nothing is forbidden.
    assert bool(rules.rules) is bool(forbidden)


@pytest.mark.parametrize(
    ("lines", "gap"),
    [
        (["Crawl-delay: 2.5"], Delay.of(2.5)),
        (["Request-rate: 30/1m", "Crawl-delay: 1"], Delay.of(2)),
        (["Request-rate: 30/1m", "Crawl-delay: 3"], Delay.of(3)),
        (["Crawl-delay: soon"], NO_DELAY),
        (["Crawl-delay: 1000000"], Delay.of(LONGEST)),
        (["Request-rate: 1/" + "9" * 400], Delay.of(LONGEST)),
        (["Request-rate: 1/0"], NO_DELAY),
        (["Request-rate: " + "9" * 5_000 + "/1", "Crawl-delay: " + "9" * 5_000], NO_DELAY),
        (["Crawl-delay: nan"], NO_DELAY),
        (["User-agent: slurp", "Crawl-delay: 9"], NO_DELAY),
    ],
)
def test_the_longer_of_both_gaps_is_kept(lines: Sequence[str], gap: Delay) -> None:
    assert Robots().read(SITE, 200, "\n".join(["User-agent: *", "Allow: /", *lines]).encode()) == gap


def test_each_site_has_its_own_rules() -> None:
    tiles, robots = "http://tiles.example.net:8080", Robots()
    robots.read(SITE, 200, b"User-agent: *\nDisallow: /a/")
    robots.read(tiles, 200, b"User-agent: *\nDisallow: /b/")
    paths = [f"{site}/{path}/0.png" for site in (SITE, tiles, "https://map.example.net") for path in "ab"]
    assert [robots.allows(path) for path in paths] == [False, True, True, False, True, True]
    assert origin_of("https://map.example.net:8443/a/b.png?c=1") == "https://map.example.net:8443"


PUBLIC = "93.184.215.14"


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("127.0.0.1", "this computer's own"),
        ("0.0.0.0", "this computer's own"),
        ("::1", "this computer's own"),
        ("::ffff:127.0.0.1", "this computer's own"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("10.0.0.1", "private"),
        ("172.16.3.4", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("fec0::1", "private"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:a00:1::1", "private"),
        ("64:ff9b::93.184.216.34", None),
        ("2002:5db8:d822::1", None),
        (PUBLIC, None),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", None),
    ],
)
def test_a_map_of_the_internet_leads_to_no_network_of_ours(target: str, kind: str | None) -> None:
    assert refused_network(target, [PUBLIC]) == kind


def test_a_map_of_a_network_may_lead_around_in_it() -> None:
    for target, own in (("10.0.0.1", "192.168.1.7"), ("127.0.0.1", "127.0.0.1")):
        assert refused_network(target, [PUBLIC, own]) is None
        assert refused_network("169.254.169.254", [own]) == "link-local"
