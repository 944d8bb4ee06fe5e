"""Judges the answers about the tiles of a block. Nothing else judges them."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace
from scrapy.exceptions import IgnoreRequest

from tileharvest.harvest.walks import located
from tileharvest.maps.settings import setting
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.scheduler.crawl import harvest_of
from tileharvest.spiders.blocks import BlockRequest, BlockResponse, BlockResult
from tileharvest.spiders.redirects import AskLater
from tileharvest.spiders.transfer import kinds_of
from tileharvest.tiles.block import WHOLE, bits_of, blocks_of, mask_of
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.tiles.results import IN_FULL, ON_WALK
from tileharvest.tiles.verdict import (
    Answer,
    conditional_headers,
    judge_existence,
    judge_head,
    pause_before,
    retry_after,
    with_attempts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.history.blocks import FoundBlock
    from tileharvest.tiles.results import Asked, Step
    from tileharvest.tiles.verdict import Verdict
    from tileharvest.tiles.versions import Version


_logger = logging.getLogger(__name__)


class DiffMiddleware:
    """Reads what the history knows of a block, and judges each answer: an outcome, a GET, or another attempt.

    The spider finds that in the response's `result`. Requests that ask for no block pass untouched.
    """

    def __init__(self, harvest: Harvest, settings: BaseSettings) -> None:
        self._harvest = harvest
        self._attempts = settings.getint("RETRY_TIMES") + 1
        self._pause = float(setting(settings, "RETRY_PAUSE"))
        self._longest = float(setting(settings, "RETRY_AFTER_LONGEST"))
        self._passing = tuple(settings.getlist("RETRY_EXCEPTIONS"))
        self._is_conditional = harvest.description.check == "conditional"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(harvest_of(crawler), crawler.settings)

    async def process_request(self, request: Request) -> Response | None:
        """Looks the block up, and decides which of its tiles are asked by GET at once: all if HEAD says
        nothing, those that are not known while nothing of the map is, and known ones with their ETag if the
        map has `check = "conditional"`. Tiles that another request has asked meanwhile are left out."""
        if not isinstance(request, BlockRequest):
            return None
        if request.is_pushed:
            self._locate(request)
        harvest, asked = self._harvest, request.asked
        request.known = known = await harvest.look_up(request.block)
        # Below the deepest tiles there is nothing that a walk in full would have to go on to.
        is_deepest = request.block.zoom == harvest.layers[request.block.layer].walk.deepest
        is_asked_once = asked == ON_WALK or (asked == IN_FULL and is_deepest)
        if is_asked_once and request.attempt == 1 and not request.was_leased:
            request.leave_out(known.asked)
        if not len(request.block):
            return BlockResponse(request.url, request=request, result=BlockResult(request.block))
        if request.method == "HEAD":
            request.gets = self._fetched_at_once(request)
            is_kept = request.block.zoom in harvest.layers[request.block.layer].walk.kept_zooms
            there = mask_of(bit for bit, latest in known.versions.items() if latest.image is not None)
            request.expected = there if is_kept else WHOLE
        return None

    def _locate(self, request: BlockRequest) -> None:
        """Finds out which tile a person has pushed. Raises IgnoreRequest if the site has no such tile."""
        try:
            name, tile = located(self._harvest.layers, request.url)
        except LookupError as error:
            _logger.error("%s", error)
            raise IgnoreRequest(str(error)) from None
        request.locate(blocks_of(name, [tile])[0])

    def _fetched_at_once(self, request: BlockRequest) -> int:
        """Returns the tiles of a HEAD block that are asked by GET. A known tile is asked so only with its
        ETag, unless HEAD says nothing: a 304 by the date alone says nothing about the size."""
        harvest, block, asked = self._harvest, request.block, request.asked
        if not harvest.answers_head:
            return block.mask
        gets = 0
        if self._is_conditional:
            known = request.known.versions.items()
            gets = block.mask & mask_of(
                bit for bit, latest in known if "If-None-Match" in conditional_headers(latest)
            )
        is_kept = block.zoom in harvest.layers[block.layer].walk.kept_zooms
        if is_kept and harvest.fetches_unknown and not asked.late:
            gets |= block.mask & ~mask_of(request.known.versions)
        return gets

    async def process_response(self, request: Request, response: Response) -> Response:
        if not isinstance(request, BlockRequest) or not isinstance(response, BlockResponse):
            return response
        if response.result is not None:
            return response
        asked = request.asked
        if request.was_leased:
            # A lease on the block was lost, so what lies below may have been asked before it.
            is_late = asked.late or await self._harvest.has_gone_below(request.block)
            asked = replace(asked, late=is_late)
        result = BlockResult(request.block, left=request.block.mask & ~response.asked)
        judge = self._judge_of(result, request, response.gets, asked)
        for bit, answer in response.answers.items():
            if isinstance(answer, Exception) or answer.may_pass:
                self._ask_again(result, bit, answer, request.attempt)
            else:
                judge(bit, answer)
        await self._after(result, request, response)
        response.result = result
        return response

    def _ask_again(self, result: BlockResult, bit: int, answer: Answer | Exception, attempt: int) -> None:
        """Notes that a tile without a usable answer is asked again, or after all attempts that it failed."""
        seconds = None
        if isinstance(answer, Exception):
            reason = no_answer_in_words(answer)
            may_pass = isinstance(answer, (AskLater, *kinds_of(self._passing)))
        else:
            seconds = retry_after(answer.retry_after, datetime.now(UTC))
            reason, may_pass = answer.phrase, (seconds or 0.0) <= self._longest
        if may_pass and attempt < self._attempts:
            result.again |= 1 << bit
            result.pause = max(result.pause, pause_before(attempt + 1, self._pause, seconds))
        else:
            _note_failure(result.found, bit, with_attempts(reason, attempt))

    def _judge_of(
        self, result: BlockResult, request: BlockRequest, gets: int, asked: Asked
    ) -> Callable[[int, Answer], None]:
        """Returns a function that judges the answer about a bit's tile, given what the history knows of it.
        `gets` are the tiles that were asked by GET."""
        harvest, block, known = self._harvest, request.block, request.known
        layer, walk = block.layer, harvest.layers[block.layer].walk
        result.found.is_kept = is_kept = block.zoom in walk.kept_zooms
        is_pruned = block.layer in harvest.walks.pruned

        def judge(bit: int, answer: Answer) -> None:
            by_head = not gets >> bit & 1
            latest = known.versions.get(bit) if is_kept else None
            answer = harvest.understood(answer)
            if not is_kept:
                verdict = judge_existence(answer, by_head=by_head)
            elif by_head:
                verdict = judge_head(answer, latest)
            else:
                verdict = harvest.judged(answer, latest, layer)
            if verdict is None:
                result.gets |= 1 << bit
            elif verdict.outcome is Outcome.FAILED:
                _note_failure(result.found, bit, with_attempts(verdict.reason or "", request.attempt))
            else:
                mark = known.remembered.get(bit)
                step = walk.step(block, bit, verdict.outcome, answer, mark, asked, is_pruned=is_pruned)
                _note(result, bit, verdict, answer, step, latest)

        return judge

    async def _after(self, result: BlockResult, request: BlockRequest, response: BlockResponse) -> None:
        """Does what a few tiles need beyond their verdicts: the walk goes on below a failed tile if anything
        is known there, and an image that may be damaged in the store is put there again."""
        harvest, block, found = self._harvest, request.block, result.found
        for bit in found.reasons:
            if await harvest.knows_below(block.layer, block.tile(bit)):
                result.there |= 1 << bit
        for bit in bits_of(found.outcomes.get(Outcome.NOT_MODIFIED, 0)):
            answer = response.answers[bit]
            assert isinstance(answer, Answer)
            latest, late = request.known.versions[bit], request.asked.late
            await harvest.mend(latest, found.validators.get(bit), answer.body, late=late)


def _note(
    result: BlockResult, bit: int, verdict: Verdict, answer: Answer, step: Step, latest: Version | None
) -> None:
    """Adds what was found for a bit's tile."""
    found = result.found
    found.outcomes[verdict.outcome] = found.outcomes.get(verdict.outcome, 0) | 1 << bit
    if verdict.image is not None:
        found.images[bit] = verdict.image
        result.bodies[verdict.image] = answer.body
    if verdict.validator is not None:
        found.validators[bit] = verdict.validator
    if verdict.outcome is Outcome.IGNORED and latest is not None and latest.image is not None:
        result.spared_bytes += latest.image.size
    found.doubts |= step.doubts << bit
    if step.seen is not None:
        found.seen[bit] = step.seen
    found.skips |= step.skips << bit
    result.there |= (verdict.outcome in THERE) << bit


def _note_failure(found: FoundBlock, bit: int, reason: str) -> None:
    found.outcomes[Outcome.FAILED] = found.outcomes.get(Outcome.FAILED, 0) | 1 << bit
    found.reasons[bit] = reason
