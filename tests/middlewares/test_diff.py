"""What becomes of a tile's answers. The rules themselves are tested with `verdict.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from tests.middlewares.making import (
    DAY,
    ETAG,
    HOST,
    LATER,
    LAYER,
    SITE,
    added,
    drawn,
    image_of,
    opened,
    remember,
    unopened,
)
from tileharvest.middlewares.diff import DiffMiddleware, answer_of
from tileharvest.queue.codec import VERSION, QueuedRequest
from tileharvest.queue.port import Lease
from tileharvest.queue.requests import STATE, RequestState, question_of, state_of
from tileharvest.renderers.overviewer import Overviewer
from tileharvest.scheduler.blocks import Block, QueuedTile
from tileharvest.store.files import FileStore
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.questions import LATE, ON_WALK, TileQuestion
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

ABOVE, TILE, NEW = Tile(-1, -2, 2), Tile(0, -3, 3), Tile(0, 3, 3)
"""The first is above the second; only the second is known."""
BODY = drawn(str(TILE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a history that knows one tile, of the day before."""
    asyncio.run(remember(tmp_path, added(TILE)))
    return tmp_path


def ask(tile: Tile, method: str = "HEAD", **meta: Any) -> Request:
    known = {STATE: RequestState(TileQuestion(LAYER, tile)), "download_slot": HOST}
    return Request(SITE.layers[0].addresses.url_of(tile), method=method, callback=callback, meta=known | meta)


def callback(response: Response) -> None:
    """Where answers go; a request that takes the place of another keeps it."""


def processed(
    folder: Path, request: Request, response: Response, day: date = LATER, **keys: Any
) -> Request | Response:
    """What becomes of an answer of a host that has answered a HEAD before."""

    async def run() -> Request | Response:
        async with opened(folder, day, **keys) as harvest:
            diff = DiffMiddleware(harvest)
            diff.heads[HOST].doubts(None, 200, is_expected=False)
            return await diff.process_response(request, response)

    return asyncio.run(run())


def answered(folder: Path, request: Request, status: int, **more: Any) -> TileResult:
    """The result that is handed on beside an answer, which itself is handed on untouched."""
    keys = {name: more.pop(name) for name in ("day", "again", "zooms") if name in more}
    response = Response(request.url, status=status, request=request, **more)
    assert processed(folder, request, response, **keys) is response
    result = state_of(request).result
    assert isinstance(result, TileResult)
    question = question_of(request)
    assert question is not None
    assert (result.layer, result.tile) == question.place
    return result


def asked_instead(folder: Path, request: Request, status: int, **more: Any) -> Request:
    """The request that takes the place of an answer."""
    keys = {name: more.pop(name) for name in ("zooms",) if name in more}
    instead = processed(folder, request, Response(request.url, status=status, **more), **keys)
    assert isinstance(instead, Request)
    assert (instead.url, instead.meta, instead.callback) == (request.url, request.meta, request.callback)
    return instead


def test_a_request_without_a_tile_passes_untouched(folder: Path) -> None:
    request = Request(f"http://{HOST}/overviewerConfig.js")
    response = Response(request.url, status=500)
    assert DiffMiddleware(unopened(folder)).process_request(request) is None
    assert processed(folder, request, response) is response
    assert request.meta == {}


def test_a_head_with_the_known_etag_is_the_whole_answer(folder: Path) -> None:
    request = ask(TILE)
    result = answered(folder, request, 200, headers={"ETag": ETAG})
    assert (result.outcome, result.image, result.reason) == (Outcome.IGNORED, None, None)
    assert state_of(request).known is True


@pytest.mark.parametrize("tile", [TILE, NEW])
def test_a_head_with_another_etag_becomes_a_get_in_the_lane_for_what_changed(
    folder: Path, tile: Tile
) -> None:
    instead = asked_instead(folder, ask(tile), 200, headers={"ETag": '"other"'})
    assert (instead.method, instead.priority, instead.dont_filter) == ("GET", 1, False)
    assert dict(instead.headers) == {}


def test_the_get_for_a_head_that_is_not_filtered_is_not_either(folder: Path) -> None:
    """What is asked again after a failure, or after a redirect to an address that others share."""
    request = ask(TILE).replace(dont_filter=True)
    assert asked_instead(folder, request, 200, headers={"ETag": '"other"'}).dont_filter is True


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [
        ({"Last-Modified": "Wed, 01 May 2024 06:00:00 GMT", "Content-Length": str(len(BODY))}, "ign"),
        ({"Last-Modified": "Wed, 01 May 2024 06:00:00 GMT", "Content-Length": "many"}, None),
        ({"Last-Modified": "Wed, 01 May 2024 06:00:00 GMT"}, None),
        ({"ETag": b'"\xe9t\xe9"'}, None),
    ],
)
def test_headers_are_read_as_they_come(tmp_path: Path, headers: dict[str, str], outcome: str | None) -> None:
    """The history knows the tile by time and length; a length that is no number says nothing."""
    validator = Validator(None, "Wed, 01 May 2024 06:00:00 GMT")
    first = TileResult(LAYER, TILE, Outcome.ADDED, image=image_of(BODY), body=BODY, validator=validator)
    asyncio.run(remember(tmp_path, first))
    if outcome is None:
        assert asked_instead(tmp_path, ask(TILE), 200, headers=headers).method == "GET"
    else:
        assert answered(tmp_path, ask(TILE), 200, headers=headers).outcome == outcome


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize(("tile", "outcome"), [(TILE, Outcome.GONE), (NEW, Outcome.NOTHING)])
def test_a_missing_tile_is_gone_only_if_it_was_there(
    folder: Path, method: str, status: int, tile: Tile, outcome: Outcome
) -> None:
    request = ask(tile, method)
    assert answered(folder, request, status).outcome is outcome
    assert state_of(request).known is (tile == TILE)


def test_a_get_with_the_known_bytes_brings_the_new_validator(folder: Path) -> None:
    headers = {"ETag": '"other"', "Last-Modified": "Thu, 02 May 2024 06:00:00 GMT"}
    result = answered(folder, ask(TILE, "GET"), 200, headers=headers, body=BODY)
    assert (result.outcome, result.image, result.body) == (Outcome.NOT_MODIFIED, None, None)
    assert result.validator == Validator('"other"', "Thu, 02 May 2024 06:00:00 GMT")


@pytest.mark.parametrize(
    ("tile", "day", "outcome"),
    [(TILE, LATER, Outcome.UPDATED), (TILE, DAY, Outcome.REPLACED), (NEW, LATER, Outcome.ADDED)],
)
def test_a_get_with_other_bytes_brings_them(folder: Path, tile: Tile, day: date, outcome: Outcome) -> None:
    body = drawn("other")
    result = answered(
        folder, ask(tile, "GET"), 200, headers={"ETag": '"other"'}, body=body, day=day, again=True
    )
    assert (result.outcome, result.image, result.body) == (outcome, image_of(body), body)
    assert result.validator == Validator('"other"')


def test_a_get_that_is_answered_with_not_modified_is_unchanged(folder: Path) -> None:
    assert answered(folder, ask(TILE, "GET"), 304).outcome is Outcome.IGNORED


def test_a_get_that_is_no_image_is_a_failure(folder: Path) -> None:
    result = answered(folder, ask(TILE, "GET"), 200, body=b"<html>Sorry!</html>")
    assert (result.outcome, result.image) == (Outcome.FAILED, None)
    assert result.reason == "the answer is a page of HTML or XML (1 attempt)"


@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize(
    ("status", "attempts", "reason"),
    [
        (500, 5, "500 Internal Server Error (5 attempts)"),
        (403, 1, "403 Forbidden (1 attempt)"),
        (299, 1, "299 (1 attempt)"),
    ],
)
def test_a_status_that_says_nothing_is_a_failure_with_its_attempts(
    folder: Path, method: str, status: int, attempts: int, reason: str
) -> None:
    request = ask(TILE, method, retry_times=attempts - 1)
    result = answered(folder, request, status)
    assert (result.outcome, result.reason) == (Outcome.FAILED, reason)


@pytest.mark.parametrize(("tile", "known"), [(TILE, True), (ABOVE, True), (NEW, False)])
def test_after_a_failure_it_counts_whether_anything_is_known_below(
    folder: Path, tile: Tile, known: bool
) -> None:
    request = ask(tile)
    answered(folder, request, 500)
    assert state_of(request).known is known


@pytest.mark.parametrize("status", [405, 501])
def test_a_refused_head_becomes_a_get_with_a_condition(folder: Path, status: int) -> None:
    instead = asked_instead(folder, ask(TILE), status)
    assert (instead.method, instead.headers[b"If-None-Match"]) == ("GET", ETAG.encode())


def test_a_refused_head_of_an_unknown_tile_becomes_a_get_without_one(folder: Path) -> None:
    assert dict(asked_instead(folder, ask(NEW), 405).headers) == {}


def test_a_host_that_has_refused_one_head_gets_no_other(folder: Path) -> None:
    async def run() -> None:
        async with opened(folder) as harvest:
            tested = DiffMiddleware(harvest)
            assert tested.process_request(ask(TILE)) is None
            await tested.process_response(ask(NEW), Response(ask(NEW).url, status=405))
            instead = tested.process_request(ask(TILE))
            assert instead is not None
            get = await instead
            assert (get.method, get.headers[b"If-None-Match"]) == ("GET", ETAG.encode())
            assert tested.process_request(get) is None
            assert tested.process_request(ask(TILE, download_slot="tiles.example.net")) is None

    asyncio.run(run())


@pytest.mark.parametrize("status", [403, 404])
def test_a_host_that_refuses_head_in_other_words_is_asked_by_get(folder: Path, status: int) -> None:
    async def run() -> None:
        async with opened(folder) as harvest:
            tested, request = DiffMiddleware(harvest), ask(TILE)
            get = await tested.process_response(request, Response(request.url, status=status))
            assert isinstance(get, Request)
            assert (get.method, get.headers[b"If-None-Match"]) == ("GET", ETAG.encode())
            assert isinstance(await tested.process_response(get, Response(get.url, status=304)), Response)
            instead = tested.process_request(ask(TILE))
            assert instead is not None
            assert (await instead).method == "GET"

    asyncio.run(run())


@pytest.mark.parametrize("headers", [{"Last-Modified": "Wed, 01 May 2024 06:00:00 GMT"}, {"ETag": '"other"'}])
def test_a_tile_that_is_not_kept_is_only_asked_whether_it_is_there(
    folder: Path, headers: dict[str, str]
) -> None:
    result = answered(folder, ask(ABOVE), 200, headers=headers, zooms=(0, 0))
    assert (result.outcome, result.image) == (Outcome.IGNORED, None)


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_tile_that_is_not_kept_is_never_gone(folder: Path, method: str) -> None:
    assert answered(folder, ask(ABOVE, method), 404, zooms=(0, 0)).outcome is Outcome.NOTHING


def test_the_body_of_a_tile_that_is_not_kept_is_not_looked_at(folder: Path) -> None:
    result = answered(folder, ask(ABOVE, "GET"), 200, body=b"<html>", zooms=(0, 0))
    assert (result.outcome, result.body) == (Outcome.IGNORED, None)


def test_a_refused_head_of_a_tile_that_is_not_kept_becomes_a_get(folder: Path) -> None:
    instead = asked_instead(folder, ask(ABOVE), 405, zooms=(0, 0))
    assert (instead.method, dict(instead.headers)) == ("GET", {})


@pytest.mark.parametrize("status", [405, 501])
@pytest.mark.parametrize("zooms", [None, (0, 0)])
def test_a_refused_get_is_a_failure_and_not_asked_for_ever(
    folder: Path, status: int, zooms: tuple[int, int] | None
) -> None:
    assert answered(folder, ask(ABOVE, "GET"), status, zooms=zooms).outcome is Outcome.FAILED


def test_a_spider_that_harvests_nothing_goes_without_it() -> None:
    crawler = Crawler(Spider)
    crawler.spider = Spider(name="probing")
    with pytest.raises(NotConfigured):
        DiffMiddleware.from_crawler(crawler)


@pytest.mark.parametrize(
    ("request_", "answer", "spared"),
    [
        (ask(TILE), {"headers": {"ETag": ETAG}}, len(BODY)),
        (ask(TILE, "GET"), {"status": 304}, len(BODY)),
        (ask(TILE), {"headers": {"ETag": '"other"'}}, 0),
        (ask(TILE, "GET"), {"headers": {"ETag": '"other"'}, "body": BODY}, 0),
        (ask(NEW), {"status": 404}, 0),
        (ask(ABOVE), {}, 0),
    ],
    ids=[
        "known ETag",
        "not modified",
        "other ETag",
        "the same bytes",
        "nothing there",
        "only whether it is there",
    ],
)
def test_a_known_image_that_is_not_fetched_is_spared(
    folder: Path, request_: Request, answer: dict[str, Any], spared: int
) -> None:
    async def run() -> None:
        async with opened(folder, zooms=(0, 0)) as harvest:
            await DiffMiddleware(harvest).process_response(request_, Response(request_.url, **answer))
            assert harvest.traffic.spared_bytes == spared

    asyncio.run(run())


class Emptying(Overviewer):
    """A renderer whose own server answers 200 and nothing for what is missing."""

    def understood(self, answer: Answer, tile: Tile) -> Answer:
        is_empty = answer.status == 200 and answer.length == 0 and answer.validator == Validator()
        return Answer(404) if is_empty else answer


def test_what_the_renderer_says_is_missing_is_missing(folder: Path) -> None:
    """A GET that brings nothing is one of no bytes, also where no header says so, as in chunks."""

    async def run(request: Request) -> Outcome:
        headers = {"Content-Length": "0"} if request.method == "HEAD" else {}
        async with opened(folder) as harvest:
            harvest.renderer = Emptying()
            response = Response(request.url, headers=headers, request=request)
            await DiffMiddleware(harvest).process_response(request, response)
        result = state_of(request).result
        assert result is not None
        return result.outcome

    assert asyncio.run(run(ask(NEW))) is Outcome.NOTHING
    assert asyncio.run(run(ask(TILE, "GET"))) is Outcome.GONE


@pytest.mark.parametrize(("tile", "outcome"), [(NEW, Outcome.NOTHING), (TILE, Outcome.GONE)])
def test_an_image_that_stands_for_a_missing_tile_is_missing(
    folder: Path, tile: Tile, outcome: Outcome
) -> None:
    """Of a HEAD nobody can tell; the bytes of the GET are compared."""
    blank, request = drawn("blank"), ask(tile, "GET")
    assert asked_instead(folder, ask(tile), 200, headers={"ETag": '"other"'}).method == "GET"
    processed(folder, request, Response(request.url, body=blank), blank=(image_of(blank).sha1,))
    result = state_of(request).result
    assert result is not None
    assert result.outcome is outcome


def test_where_head_is_answered_with_a_body_none_is_sent(folder: Path) -> None:
    async def run() -> tuple[Request | None, Request | None]:
        async with opened(folder) as harvest:
            harvest.answers_head = False
            middleware = DiffMiddleware(harvest)
            answers = [middleware.process_request(ask(tile)) for tile in (TILE, NEW)]
            known, new = [await one for one in answers if one is not None]
            return known, new

    known, new = asyncio.run(run())
    assert known is not None
    assert new is not None
    assert known.headers[b"If-None-Match"] == ETAG.encode()
    assert (known.method, new.method, dict(new.headers)) == ("GET", "GET", {})


@pytest.mark.parametrize("tile", [ABOVE, TILE, NEW])
@pytest.mark.parametrize("status", [200, 204, 404, 410, 405, 500])
@pytest.mark.parametrize("etag", [None, ETAG, f"W/{ETAG}", '"other"'])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_at_once_it_tells_what_it_tells_of_a_request(
    folder: Path, method: str, tile: Tile, status: int, etag: str | None
) -> None:
    """But for failures and tiles that have vanished, of which it tells nothing. Of a GET it is told the known
    image of the tile."""
    headers = {} if etag is None else {"ETag": etag}

    async def run() -> tuple[Any, Any]:
        async with opened(folder) as harvest:
            diff, request, by_head = DiffMiddleware(harvest), ask(tile, method), method == "HEAD"
            diff.heads[HOST].doubts(None, 200, is_expected=False)
            body = b"" if by_head else BODY
            response = Response(request.url, status=status, headers=headers, body=body, request=request)
            await harvest.walks.known.of(LAYER, tile)
            at_once = diff.found_at_once(TileQuestion(LAYER, tile), answer_of(response), by_head=by_head)
            assert harvest.traffic.spared_bytes == 0, "nothing is kept yet"
            answer = await diff.process_response(request, response)
            return at_once, "GET" if isinstance(answer, Request) else state_of(request).result

    at_once, usual = asyncio.run(run())
    is_refused = method == "HEAD" and status == 405
    if is_refused or (usual != "GET" and usual.outcome in (Outcome.FAILED, Outcome.GONE)):
        assert at_once is None
    else:
        assert at_once == ("GET" if usual == "GET" else (usual, image_of(BODY) if tile == TILE else None))


def test_a_request_that_was_answered_before_is_not_sent(folder: Path) -> None:
    """It is given its answer once: what takes its place shares its state."""

    async def run() -> None:
        async with opened(folder) as harvest:
            middleware, request = DiffMiddleware(harvest), ask(TILE)
            given = Response(request.url, status=500)
            state_of(request).answer = given
            assert middleware.process_request(request) is given
            assert middleware.process_request(request) is None
            state_of(request).answer = ConnectionError("reset")
            with pytest.raises(ConnectionError, match="reset"):
                middleware.process_request(request)
            assert middleware.process_request(request) is None

    asyncio.run(run())


def test_the_tiles_of_a_block_are_asked_the_short_way(folder: Path) -> None:
    class Way:
        async def ask_all(self, block: Block) -> Response:
            return Response(block.url)

    async def run() -> None:
        async with opened(folder) as harvest:
            way: Any = Way()
            queued = QueuedRequest(version=VERSION, url=ask(TILE).url, method="HEAD")
            block = Block(QueuedTile(Lease(1, 1, b"", "day", 0), queued), way)
            middleware = DiffMiddleware(harvest)
            asked: Any = middleware.process_request(block)
            response = await asked
            assert await middleware.process_response(block, response) is response

    asyncio.run(run())


def test_at_once_it_tells_nothing_where_the_history_is_not_asked_yet(folder: Path) -> None:
    async def run() -> object:
        async with opened(folder) as harvest:
            answer = Answer(200, Validator(ETAG))
            return DiffMiddleware(harvest).found_at_once(TileQuestion(LAYER, TILE), answer, by_head=True)

    assert asyncio.run(run()) is None


@pytest.mark.parametrize("late", [True, False], ids=["pushed", "on the walk"])
def test_a_lost_image_of_a_site_that_says_nothing_of_its_tiles_is_put_again_where_it_is_pushed(
    tmp_path: Path, *, late: bool
) -> None:
    """Else the whole store would be read at each harvest, as each tile comes by GET and with no ETag."""
    first = TileResult(LAYER, TILE, Outcome.ADDED, image=image_of(BODY), body=BODY)
    asyncio.run(remember(tmp_path, first))
    lost = FileStore(tmp_path / "tiles").path(image_of(BODY))
    lost.unlink()
    request = ask(TILE, "GET")
    state_of(request).question = TileQuestion(LAYER, TILE, LATE if late else ON_WALK)
    assert answered(tmp_path, request, 200, body=BODY).outcome is Outcome.NOT_MODIFIED
    assert lost.exists() is late


@pytest.mark.parametrize("below", [(), (TILE,)], ids=["nothing", "a tile"])
def test_a_tile_that_is_asked_again_is_late_where_something_below_it_was_found(
    folder: Path, below: tuple[Tile, ...]
) -> None:
    """Then what its answer says is not remembered: it may be younger than what lies below. Most tiles whose
    lease was lost were never asked, and are as good as others."""
    request = ask(ABOVE, "GET")
    state_of(request).attempt = 2
    response = Response(
        request.url, status=200, body=drawn("above"), headers={"ETag": '"new"'}, request=request
    )

    async def run() -> None:
        async with opened(folder) as harvest:
            for tile in below:
                await harvest.keep(TileResult(LAYER, tile, Outcome.IGNORED))
            middleware = DiffMiddleware(harvest)
            assert middleware.process_request(request) is None
            await middleware.process_response(request, response)

    asyncio.run(run())
    result = state_of(request).result
    assert result is not None
    assert result.again
    assert (result.step.seen is None) == bool(below)
