"""What becomes of the answers to a block. The rules themselves are tested with `verdict.py`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest
from scrapy.http import Response
from scrapy.settings import Settings

from tests.history.making import TileResult, image_of
from tests.middlewares.making import (
    DAY,
    ETAG,
    HOST,
    LATER,
    LAYER,
    SITE,
    added,
    drawn,
    keep,
    opened,
    remember,
)
from tileharvest.harvest.harvest import Harvest
from tileharvest.middlewares.diff import DiffMiddleware
from tileharvest.spiders.blocks import ATTEMPT, BlockRequest, BlockResponse, BlockResult
from tileharvest.tiles.block import bit_of, blocks_of, mask_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.walk import LATE

KNOWN, NEW = Tile(0, 1, -1), Tile(0, 3, -1)
"""Neighbours of one block; only the first is known."""
BODY = drawn(str(KNOWN))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a history that knows one tile, of the day before."""
    asyncio.run(remember(tmp_path, added(KNOWN)))
    return tmp_path


def middleware(harvest: Harvest) -> DiffMiddleware:
    return DiffMiddleware(harvest, Settings({"RETRY_TIMES": 4, "RETRY_PAUSE": 2.0}))


def asking(*tiles: Tile, method: str = "HEAD", **options: Any) -> BlockRequest:
    (block,) = blocks_of(LAYER, tiles)
    return BlockRequest.of(block, SITE.layers[0].addresses.url_of(tiles[0]), method=method, **options)


def judged(
    folder: Path, request: BlockRequest, answers: Mapping[Tile, Answer | Exception], **keys: Any
) -> BlockResult:
    """What is found in the answers, given what the harvest has `recorded` before."""
    recorded = keys.pop("recorded", ())

    async def run() -> BlockResult:
        async with opened(folder, keys.pop("day", LATER), **keys) as harvest:
            await keep(harvest, recorded)
            diff = middleware(harvest)
            assert await diff.process_request(request) is None
            gets = request.block.mask if request.method == "GET" else request.gets
            by_bit = {bit_of(tile): answer for tile, answer in answers.items()}
            response = BlockResponse(request.url, request=request, answers=by_bit, gets=gets)
            assert await diff.process_response(request, response) is response
            assert response.result is not None
            return response.result

    return asyncio.run(run())


def mask(*tiles: Tile) -> int:
    return mask_of(map(bit_of, tiles))


def test_each_tile_of_a_block_is_judged_by_what_is_known_of_it(folder: Path) -> None:
    same = Answer(200, Validator(ETAG))
    found = judged(folder, asking(KNOWN, NEW), {KNOWN: same, NEW: Answer(404)})
    assert found.found.outcomes == {Outcome.IGNORED: mask(KNOWN), Outcome.NOTHING: mask(NEW)}
    assert (found.gets, found.again, found.left, found.there) == (0, 0, 0, mask(KNOWN))
    assert found.spared_bytes == len(BODY)


def test_what_a_head_does_not_settle_is_fetched_next_and_what_was_not_asked_is_left(folder: Path) -> None:
    other, unasked = Answer(200, Validator('"other"')), Tile(0, 3, -3)
    found = judged(folder, asking(KNOWN, NEW, unasked), {KNOWN: other, NEW: other})
    assert (found.gets, found.left) == (mask(KNOWN, NEW), mask(unasked))
    assert not found.found.outcomes


def test_an_image_whose_version_has_lost_its_validator_is_put_into_the_store_again(tmp_path: Path) -> None:
    version = TileResult(LAYER, KNOWN, Outcome.ADDED, image_of(BODY), BODY, Validator())
    asyncio.run(remember(tmp_path, version))
    (stored,) = (tmp_path / "tiles").rglob(image_of(BODY).file_name)
    stored.unlink()
    judged(tmp_path, asking(KNOWN, method="GET"), {KNOWN: Answer(200, Validator(ETAG), len(BODY), BODY)})
    assert stored.read_bytes() == BODY


@pytest.mark.parametrize(
    ("tile", "body", "day", "outcome"),
    [
        (KNOWN, BODY, LATER, Outcome.NOT_MODIFIED),
        (KNOWN, drawn("other"), LATER, Outcome.UPDATED),
        (KNOWN, drawn("other"), DAY, Outcome.REPLACED),
        (NEW, drawn("new"), LATER, Outcome.ADDED),
    ],
)
def test_a_get_is_judged_by_bytes(folder: Path, tile: Tile, body: bytes, day: Any, outcome: Outcome) -> None:
    answer = Answer(200, Validator('"other"'), len(body), body)
    found = judged(folder, asking(tile, method="GET"), {tile: answer}, day=day, again=day == DAY)
    assert found.found.outcomes == {outcome: mask(tile)}
    assert found.found.validators == {bit_of(tile): Validator('"other"')}
    is_new = outcome is not Outcome.NOT_MODIFIED
    assert found.found.images == ({bit_of(tile): image_of(body)} if is_new else {})
    assert found.bodies == ({image_of(body): body} if is_new else {})


@pytest.mark.parametrize(
    ("answer", "attempt", "pause"),
    [
        (DownloadTimeoutError("slow"), 1, 2.0),
        (DownloadTimeoutError("slow"), 3, 8.0),
        (Answer(503), 1, 2.0),
        (Answer(429, retry_after="30"), 1, 30.0),
        (Answer(403, retry_after="30"), 1, 30.0),
    ],
)
def test_what_may_pass_is_asked_again_after_a_growing_pause(
    folder: Path, answer: Answer | Exception, attempt: int, pause: float
) -> None:
    request = asking(KNOWN, NEW, meta={ATTEMPT: attempt - 1})
    found = judged(folder, request, {KNOWN: answer, NEW: Answer(404)})
    assert (found.again, found.pause) == (mask(KNOWN), pause)
    assert found.found.outcomes == {Outcome.NOTHING: mask(NEW)}


@pytest.mark.parametrize(
    ("answer", "attempt", "reason"),
    [
        (DownloadTimeoutError("slow"), 5, "slow (5 attempts)"),
        (Answer(503), 5, "503 Service Unavailable (5 attempts)"),
        (Answer(503, retry_after="601"), 1, "503 Service Unavailable (1 attempt)"),
        (Answer(403), 1, "403 Forbidden (1 attempt)"),
        (IgnoreRequest("robots.txt forbids it"), 1, "robots.txt forbids it (1 attempt)"),
    ],
)
def test_what_does_not_pass_has_failed_and_the_walk_goes_on_below_what_is_known(
    folder: Path, answer: Answer | Exception, attempt: int, reason: str
) -> None:
    request = asking(KNOWN, NEW, meta={ATTEMPT: attempt - 1})
    found = judged(folder, request, {KNOWN: answer, NEW: answer})
    assert found.found.outcomes == {Outcome.FAILED: mask(KNOWN, NEW)}
    assert found.found.reasons == dict.fromkeys(map(bit_of, (KNOWN, NEW)), reason)
    assert (found.again, found.there) == (0, mask(KNOWN))


def decided(folder: Path, request: BlockRequest, *recorded: TileResult, **keys: Any) -> Response | None:
    """What the middleware does with a request, given what the harvest has recorded already."""

    async def run() -> Response | None:
        async with opened(folder, LATER, **keys) as harvest:
            await keep(harvest, recorded)
            diff = middleware(harvest)
            found = await diff.process_request(request)
            assert not isinstance(found, Request)
            return found

    return asyncio.run(run())


@pytest.mark.parametrize(("check", "gets"), [("head", 0), ("conditional", mask(KNOWN))])
def test_a_block_has_its_conditional_tiles_and_those_to_exist(folder: Path, check: str, gets: int) -> None:
    request = asking(KNOWN, NEW)
    assert decided(folder, request, check=check) is None
    assert (request.gets, request.expected) == (gets, mask(KNOWN))


def test_nothing_is_asked_by_head_while_nothing_is_known(tmp_path: Path) -> None:
    request = asking(KNOWN, NEW)
    assert decided(tmp_path, request) is None
    assert request.gets == mask(KNOWN, NEW)


@pytest.mark.parametrize("options", [{}, {"asked": LATE}, {"meta": {"lease": {"id": 1, "attempt": 2}}}])
def test_a_walk_asks_a_tile_once_unless_a_lease_was_lost(folder: Path, options: dict[str, Any]) -> None:
    request = asking(KNOWN, NEW, **options)
    assert decided(folder, request, TileResult(LAYER, NEW, Outcome.NOTHING)) is None
    assert request.block.mask == (mask(KNOWN, NEW) if options else mask(KNOWN))


@pytest.mark.parametrize("is_below_asked", [True, False])
def test_a_lost_lease_forgets_a_tile_with_results_below(folder: Path, is_below_asked: bool) -> None:
    above, lease = Tile(-1, 2, -2), {"id": 1, "attempt": 2}
    recorded = [TileResult(LAYER, NEW, Outcome.NOTHING)] if is_below_asked else []
    answers = {above: Answer(200, Validator(ETAG), len(BODY), BODY)}
    found = judged(folder, asking(above, method="GET", meta={"lease": lease}), answers, recorded=recorded)
    assert bool(found.found.seen) is not is_below_asked


def test_a_block_of_which_every_tile_has_a_result_is_answered_without_asking(folder: Path) -> None:
    found = decided(folder, asking(NEW), TileResult(LAYER, NEW, Outcome.NOTHING))
    assert isinstance(found, BlockResponse)
    assert found.result is not None
    assert not found.result.found.outcomes


def test_a_request_for_a_pushed_tile_is_itself_asked_as_a_block(folder: Path) -> None:
    async def run(url: str) -> None:
        async with opened(folder) as harvest:
            request = BlockRequest(url, method="HEAD", meta={"verbatim_url": True})
            assert await middleware(harvest).process_request(request) is None
            assert (request.block, request.asked) == (blocks_of(LAYER, [NEW])[0], LATE)

    address = SITE.layers[0].addresses.url_of(NEW)
    for url in (f"http://{HOST}/#tile={LAYER}/{NEW}", f"http://{HOST}/#tile=/{NEW}", address):
        asyncio.run(run(url))
    with pytest.raises(IgnoreRequest, match="not a tile of the map"):
        asyncio.run(run(f"http://{HOST}/other.png"))
