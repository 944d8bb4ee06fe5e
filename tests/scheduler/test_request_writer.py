"""Scrapy's requests as bytes and back: by classes and callbacks of the spider's own."""

from functools import partial
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import FormRequest, JsonRequest, Response, XmlRpcRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from tests.queue.test_codec import stored
from tests.scheduler.stub_spiders import StubSpider
from tileharvest.queue.codec import CodecError
from tileharvest.scheduler.request_writer import RequestWriter

URL = "https://map.example.net/day/0/3.png?c=1"


@pytest.fixture
def spider() -> StubSpider:
    return StubSpider()


@pytest.fixture
def writer(spider: StubSpider) -> RequestWriter:
    return RequestWriter(spider)


def test_every_field_comes_back_but_what_is_of_the_moment_and_writing_changes_nothing(
    spider: StubSpider, writer: RequestWriter
) -> None:
    kept = {"tile": [0, 1, -1], "deep": {"list": [None, True, 1.5]}, "download_timeout": 30}
    moment = {"lease": {"id": 1, "attempt": 2}, "not_before": 1.5, "download_latency": 0.1}
    request = Request(
        URL,
        method="PUT",
        headers={"X-Two": ["a", "b"], "Accept": b"image/\xff"},
        body=b"\x00\xff body",
        cookies={"session": "1"},
        meta={**kept, **moment},
        cb_kwargs={"page": 2},
        callback=spider.parse,
        errback=spider.failed,
        priority=-3,
        dont_filter=True,
        encoding="latin-1",
        flags=["cached"],
    )
    before = {name: getattr(request, name) for name in request.attributes}
    read = writer.read(writer.write(request))
    assert type(read) is Request
    assert {name: getattr(request, name) for name in request.attributes} == before
    assert {name: getattr(read, name) for name in request.attributes} == {**before, "meta": kept}


@pytest.mark.parametrize(
    "request_",
    [FormRequest(URL, formdata={"a": "1"}), JsonRequest(URL, data={"a": [1]})],
    ids=lambda request: type(request).__name__,
)
def test_requests_with_forms_and_json_come_back_as_such(writer: RequestWriter, request_: Request) -> None:
    read = writer.read(writer.write(request_))
    assert type(read) is type(request_)
    assert (read.method, read.body, read.headers) == (request_.method, request_.body, request_.headers)


def function(response: Any) -> None:
    """A method of no spider."""


@pytest.mark.parametrize("field", ["callback", "errback"])
@pytest.mark.parametrize(
    "foreign",
    [lambda _: None, function, StubSpider().parse, partial(function, 1), print, Request],
    ids=["lambda", "function", "of another spider", "partial", "built in", "class"],
)
def test_callbacks_that_are_no_methods_of_the_spider_are_refused(
    writer: RequestWriter, field: str, foreign: Any
) -> None:
    with pytest.raises(CodecError, match=f"^its {field} .* is not a method of the spider"):
        writer.write(Request(URL, **{field: foreign}))


class RuledSpider(CrawlSpider):
    name = "ruled"
    rules = (Rule(LinkExtractor(), callback="_parse_page"),)

    def _parse_page(self, response: Response) -> None:
        """Private, as many write it."""

    def __parse_deep(self, response: Response) -> None:
        """Python changes its name."""

    another_name = __parse_deep

    def follow(self) -> list[Any]:
        return [self._parse_page, self.__parse_deep, self._callback, self._errback, self.parse]

    def parse_start_url(self, response: Response, **kwargs: Any) -> Any:
        """Hides that of CrawlSpider."""


def test_methods_of_the_spider_and_of_the_classes_it_inherits_from_come_back() -> None:
    spider = RuledSpider()
    writer = RequestWriter(spider)
    for method in spider.follow():
        read = writer.read(writer.write(Request(URL, callback=method, errback=method)))
        assert (read.callback, read.errback) == (method, method)


class OwnRequest(Request):
    attributes = (*Request.attributes, "__module__")


@pytest.mark.parametrize("request_", [OwnRequest(URL), XmlRpcRequest(URL, params=(), methodname="a")])
def test_other_classes_of_requests_are_refused(writer: RequestWriter, request_: Request) -> None:
    expected = f"class is {type(request_).__name__}, and none of FormRequest, JsonRequest, Request"
    with pytest.raises(CodecError, match=expected):
        writer.write(request_)


def test_a_class_with_an_attribute_of_its_own_is_refused(spider: StubSpider) -> None:
    vars(spider)["request_classes"] = (OwnRequest,)
    with pytest.raises(CodecError, match="'__module__'"):
        RequestWriter(spider).write(OwnRequest(URL))


@pytest.mark.parametrize(
    "body",
    [
        b'{"v":4,"url":"https://a/","kind":"os.system"}',
        b'{"v":4,"url":"https://a/","cb":"start"}',
        b'{"v":4,"url":"https://a/","cb":"__init__"}',
        b'{"v":4,"url":"https://a/","cb":"from_crawler"}',
        b'{"v":4,"url":"https://a/","cb":"parse.__globals__"}',
    ],
)
def test_foreign_bytes_are_refused_and_load_nothing(writer: RequestWriter, body: bytes) -> None:
    with pytest.raises(CodecError, match="nothing of it was run"):
        writer.read(stored(body))
