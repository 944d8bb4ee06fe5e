"""Fingerprints against an independent reading of the rule, and against sha1sum."""

import hashlib
from functools import reduce
from types import SimpleNamespace
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.utils.test import get_crawler
from w3lib.url import canonicalize_url, safe_url_string

from tileharvest.scheduler import fingerprint as module
from tileharvest.scheduler.fingerprint import SegmentFingerprinter

IGNORED = ["c", "callback", "jsonp", "_", "t", "ts", "cache buster", "ü"]
FINGERPRINTER = SegmentFingerprinter(IGNORED)
TILE = "https://map.example.net/world-lighting/3/0/1/2.png"

texts = st.text("ab.C~-_%/;=+ é|'", max_size=5) | st.sampled_from(["%2f", "%41", "%c3%a9", "%", "..", "."])
hosts = st.sampled_from(
    [
        "map.example.net",
        "MAP.Example.NET",
        "bücher.example",
        "BÜCHER.example",
        "127.0.0.1",
        "[::0:1]",
        "u:p@h.example",
    ]
)
ports = st.sampled_from(["", ":", ":80", ":443", ":8080", ":08080", ":65535"])
keys = st.sampled_from(
    ["c", "C", "%63", "t", "ts", "_", "x", "callback", "cache+buster", "cache%20buster", "%C3%BC", ""]
)
fields = st.builds("{}{}{}".format, keys, st.sampled_from(["", "=", "=="]), texts | st.just("1605836400"))
queries = st.just("") | st.lists(fields, max_size=4).map(lambda found: "?" + "&".join(found))
urls = st.builds(
    "{}://{}{}{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    hosts,
    ports,
    st.lists(texts | st.sampled_from(["0", "3", "base.png", ".hidden", "a.b"]), max_size=4).map(
        lambda found: "".join(f"/{segment}" for segment in found)
    ),
    queries,
    st.sampled_from(["", "#", "#fragment", "#a?c=1&x=2"]),
)
PLAIN = "https://map.example.net:8443/world/0/3.png?c=16058&t=1"
pieces = st.sampled_from([*"aC0./;:@?#&=%+|'~!\\[]^ \té\0", "%41", "%2f", "..", "&x=1", "&C", "//", ":0"])
nearly_plain = st.lists(st.tuples(st.integers(0, len(PLAIN)), st.integers(0, 4), pieces), max_size=2).map(
    lambda edits: reduce(lambda url, edit: url[: edit[0]] + edit[2] + url[edit[0] + edit[1] :], edits, PLAIN)
)


def read_otherwise(url: str) -> str:
    """Drop the ignored fields first and make the rest canonical then, which is the other way round."""
    address, _, query = safe_url_string(url).partition("#")[0].partition("?")
    ignored = {key.encode() for key in IGNORED}
    kept = [
        field
        for field in query.split("&")
        if unquote_to_bytes(field.partition("=")[0].replace("+", " ")) not in ignored
    ]
    return canonicalize_url(f"{address}?{'&'.join(kept)}")


def fingerprint(url: str, **arguments) -> bytes:
    return FINGERPRINTER.fingerprint(Request(url, **arguments))


@given(urls)
def test_fingerprint_is_the_sha1_of_method_canonical_address_and_body(url):
    plain = f"1\nGET\n{read_otherwise(url)}\n"
    assert fingerprint(url) == hashlib.sha1(plain.encode()).digest()


@settings(max_examples=1000)
@given(urls | nearly_plain)
@example(PLAIN)
@example("https://map.example.net/world/3.png;?c=1")
@example("https://map.example.net/world/../3.png?c=1")
@example("https://map.example.net/world/..")
@example("https://map.example.net/?c=1#x=2")
@example("https://map.example.net?c=1")
@example("https://map.example.net/?ct=1&tc")
def test_fast_way_agrees_with_canonicalization(url):
    request = SimpleNamespace(method="GET", url=url, body=b"")
    try:
        canonical = FINGERPRINTER.canonical_address(url)
    except ValueError:
        with pytest.raises(ValueError, match=r".+"):
            FINGERPRINTER.fingerprint(request)
    else:
        assert FINGERPRINTER.fingerprint(request) == hashlib.sha1(f"1\nGET\n{canonical}\n".encode()).digest()


def test_fingerprint_is_that_of_the_documented_bytes():
    # printf '1\nHEAD\nhttps://map.example.net/world-lighting/3/0/1/2.png\n' | sha1sum
    assert (
        fingerprint(f"{TILE}?c=1605836400", method="HEAD").hex() == "f5fe5414b39d249939277b539f1d2409ec1b20e5"
    )


def test_usual_address_of_a_tile_needs_no_canonicalization(monkeypatch):
    monkeypatch.setattr(module, "canonicalize_url", None)
    assert fingerprint(f"{TILE}?c=1605836400") == fingerprint(TILE)


@pytest.mark.parametrize(
    "url",
    [
        f"{TILE}?c=1",
        f"{TILE}?c=2&_=3&callback=jQuery17&jsonp=x&t=&ts",
        f"{TILE}?%63=1",
        f"{TILE}?cache+buster=1",
        f"{TILE}#here",
        TILE.replace("map.example", "MAP.example"),
        TILE.replace("world", "%77orld"),
    ],
)
def test_same_tile_has_the_same_fingerprint(url):
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
        (TILE.replace("/2.png", "/2.jpg"), {}),
        (TILE.replace("https", "http"), {}),
        (TILE.replace(".net", ".net:8443"), {}),
    ],
)
def test_another_request_has_another_fingerprint(url, arguments):
    assert fingerprint(url, **arguments) != fingerprint(TILE)


def test_order_of_the_query_does_not_count():
    assert fingerprint(f"{TILE}?a=1&b=2&c=3") == fingerprint(f"{TILE}?b=2&a=1")


def test_repeated_keys_and_empty_values_count():
    different = {fingerprint(f"{TILE}?{query}") for query in ("a=1", "a=1&a=1", "a=1&a=2", "a=", "b=")}
    assert len(different) == 5


def test_headers_and_meta_do_not_count():
    assert fingerprint(TILE, headers={"If-None-Match": '"a"'}, meta={"x": 1}) == fingerprint(TILE)


def test_without_ignored_keys_the_whole_query_counts():
    plain = SegmentFingerprinter()
    assert plain.fingerprint(Request(f"{TILE}?c=1")) != plain.fingerprint(Request(TILE))


def test_scrapy_makes_it_with_the_keys_of_the_setting():
    settings = {"REQUEST_FINGERPRINTER_CLASS": SegmentFingerprinter, "DEDUP_IGNORE_QUERY": "c,t"}
    crawler = get_crawler(settings_dict=settings)
    crawler._apply_settings()
    made = crawler.request_fingerprinter
    assert isinstance(made, SegmentFingerprinter)
    assert made.fingerprint(Request(f"{TILE}?c=1&t=2")) == made.fingerprint(Request(TILE))
    assert made.fingerprint(Request(f"{TILE}?ts=1")) != made.fingerprint(Request(TILE))


def test_address_without_canonical_form_is_refused():
    with pytest.raises(ValueError, match=r"[Pp]ort"):
        fingerprint("http://map.example.net:70000/0.png", meta={"verbatim_url": True})
