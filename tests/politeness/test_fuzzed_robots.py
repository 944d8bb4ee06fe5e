"""Files of robots that nobody would think of: each allows something or nothing, at some pace."""

from __future__ import annotations

from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz import damaged, fuzzed
from tileharvest.maps.rates import LONGEST
from tileharvest.politeness.robots import Robots

SITE: Final = "http://map.example.net"
WORDS: Final = st.sampled_from(
    ["User-agent", "Disallow", "Allow", "Crawl-delay", "Request-rate", "Visit-time", "Sitemap", "Host", "di"]
)
VALUES: Final = st.one_of(
    st.sampled_from(
        ["*", "/", "/*$", "TileHarvest", "1/0", "0/1", "1/1e999s", "nan", "-1", "inf", "/\ud800"]
    ),
    st.integers().map(str),
    st.builds("{}/{}{}".format, st.integers(), st.integers(), st.sampled_from(["", "s", "h", " 0000-9999"])),
    st.text(max_size=12),
)


@fuzzed(400)
@given(st.lists(st.builds("{}: {}".format, WORDS, VALUES), max_size=8).map("\n".join), st.text(max_size=12))
@example("User-agent: *\nCrawl-delay: " + "9" * 5_000, "")
@example("User-agent: *\nRequest-rate: " + "9" * 5_000 + "/1", "")
@example("User-agent: *\nRequest-rate: 1/" + "9" * 400, "")
def test_any_lines_are_rules(text: str, path: str) -> None:
    rules = Robots.of(SITE, text.encode("utf-8", errors="replace"))
    assert 0 <= rules.gap.least <= rules.gap.most <= LONGEST
    assert rules.allows(f"{SITE}/{path}") in (True, False)


@fuzzed(200)
@given(
    damaged([b"User-agent: *\nCrawl-delay: 1.5\nRequest-rate: 1/5s\nDisallow: /private/*.png$\nAllow: /\n"])
)
def test_any_bytes_are_rules(body: bytes) -> None:
    assert Robots.of(SITE, body).allows(f"{SITE}/private/a.png") in (True, False)
