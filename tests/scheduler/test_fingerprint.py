"""Two requests are the same although a cache buster in their address differs."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint as scrapys
from scrapy.utils.test import get_crawler

from tileharvest.scheduler.fingerprint import SegmentFingerprinter

FINGERPRINTER = SegmentFingerprinter(["c", "callback", "jsonp", "_", "t", "ts"])
TILE = "https://map.example.net/world-lighting/3/0/1/2.png"


def fingerprint(url: str, **arguments: Any) -> bytes:
    return FINGERPRINTER.fingerprint(Request(url, **arguments))


def test_a_request_without_ignored_keys_has_the_fingerprint_that_scrapy_gives_it() -> None:
    for request in (Request(TILE), Request(f"{TILE}?b=2&a=1#here", method="PUT", body=b"x")):
        assert FINGERPRINTER.fingerprint(request) == scrapys(request)


@pytest.mark.parametrize(
    "url",
    [
        f"{TILE}?c=1",
        f"{TILE}?c=2&_=3&callback=jQuery17&jsonp=x&t=&ts",
    ],
)
def test_same_tile_has_the_same_fingerprint(url: str) -> None:
    assert fingerprint(url) == fingerprint(TILE)


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        (TILE, {"method": "HEAD"}),
        (TILE, {"body": b"x"}),
        (f"{TILE}?x=1", {}),
        (f"{TILE}?C=1", {}),
        (f"{TILE}?ct=1", {}),
        (f"{TILE}?c=1&x=1", {}),
    ],
)
def test_another_request_has_another_fingerprint(url: str, arguments: dict[str, Any]) -> None:
    assert fingerprint(url, **arguments) != fingerprint(TILE)


def test_scrapy_makes_it_with_the_keys_of_the_setting() -> None:
    settings = {"REQUEST_FINGERPRINTER_CLASS": SegmentFingerprinter, "DEDUP_IGNORE_QUERY": "c,t"}
    crawler = get_crawler(settings_dict=settings)
    crawler._apply_settings()
    made = crawler.request_fingerprinter
    assert isinstance(made, SegmentFingerprinter)
    assert made.fingerprint(Request(f"{TILE}?c=1&t=2")) == made.fingerprint(Request(TILE))
    assert made.fingerprint(Request(f"{TILE}?ts=1")) != made.fingerprint(Request(TILE))
