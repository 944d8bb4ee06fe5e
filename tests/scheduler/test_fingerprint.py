"""Two requests are the same although a cache buster in their address differs."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint as scrapys
from scrapy.utils.test import get_crawler

from tileharvest.scheduler.fingerprint import SegmentFingerprinter

TILE = "https://map.example.net/world-lighting/3/0/1/2.png"


@pytest.mark.parametrize(
    ("url", "others", "is_same"),
    [
        (f"{TILE}?c=1", {}, True),
        (f"{TILE}?c=2&_=3&callback=jQuery17&t=", {}, True),
        (TILE, {"method": "HEAD"}, False),
        (TILE, {"body": b"x"}, False),
        (f"{TILE}?ct=1", {}, False),
        (f"{TILE}?c=1&x=1", {}, False),
    ],
)
def test_keys_of_the_setting_do_not_count(url: str, others: dict[str, Any], is_same: bool) -> None:
    settings = {"REQUEST_FINGERPRINTER_CLASS": SegmentFingerprinter, "DEDUP_IGNORE_QUERY": "c,callback,_,t"}
    crawler = get_crawler(settings_dict=settings)
    crawler._apply_settings()
    made = crawler.request_fingerprinter
    assert isinstance(made, SegmentFingerprinter)
    assert (made.fingerprint(Request(url, **others)) == made.fingerprint(Request(TILE))) is is_same


def test_a_request_without_ignored_keys_has_the_fingerprint_that_scrapy_gives_it() -> None:
    for request in (Request(TILE), Request(f"{TILE}?b=2&a=1#here", method="PUT", body=b"x")):
        assert SegmentFingerprinter(["c"]).fingerprint(request) == scrapys(request)
