"""Judges the answers about the tiles of a block. Nothing else judges them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace
from scrapy.exceptions import IgnoreRequest

from tileharvest.harvest.walks import located
from tileharvest.history.blocks import FoundBlock
from tileharvest.politeness.outages import answer_in_words
from tileharvest.scheduler.crawl import harvest_of
from tileharvest.spiders.blocks import BlockRequest, BlockResponse, BlockResult
from tileharvest.spiders.outages import Patience
from tileharvest.tiles.block import WHOLE, bits_of, blocks_of, mask_of
from tileharvest.tiles.outcomes import THERE, Outcome, tiles_with
from tileharvest.tiles.verdict import (
    Answer,
    Verdict,
    conditional_headers,
    judge_existence,
    judge_head,
    settled_by_head,
    with_attempts,
)
from tileharvest.walk.walk import IN_FULL, ON_WALK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.tiles.versions import Version
    from tileharvest.walk.walk import Asked


_logger = logging.getLogger(__name__)


class DiffMiddleware:
    """Reads what the history knows of a block, and judges each answer: an outcome, a GET, or another attempt.

    The spider finds that in the response's `result`. Requests that ask for no block pass untouched.
    """

    def __init__(self, harvest: Harvest, settings: BaseSettings) -> None:
        self._harvest = harvest
        self._patience = Patience(settings)
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
        harvest, block, asked = self._harvest, request.block, request.asked
        walk = harvest.layers[block.layer].walk
        request.known = known = await harvest.look_up(block)
        # Below the deepest tiles there is nothing that a walk in full would have to go on to.
        is_asked_once = asked == ON_WALK or (asked == IN_FULL and block.zoom == walk.deepest)
        if known.outcomes and is_asked_once and request.attempt == 1 and not request.was_leased:
            request.leave_out(known.asked)
            if not request.block.mask:
                return BlockResponse(request.url, request=request, result=BlockResult(request.block))
        if request.method == "HEAD":
            request.gets = self._fetched_at_once(request)
            is_kept = block.zoom in walk.kept_zooms
            request.expected = known.present if is_kept else mask_of(known.remembered) or WHOLE
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
        harvest, asked = self._harvest, request.asked
        if request.was_leased:
            # What lies below a block that was handed out before may have been asked before it.
            asked = replace(asked, late=asked.late or await harvest.has_gone_below(request.block))
        answers = harvest.understood_all(response.answers)
        response.result = result = self._judge(request, response, answers, asked)
        for bit in bits_of(result.found.outcomes.get(Outcome.NOT_MODIFIED, 0)):
            answer, latest = answers[bit], request.known.versions[bit]
            assert isinstance(answer, Answer)
            # The image may be damaged in the store.
            await harvest.mend(latest, answer.validator, answer.body, late=request.asked.late)
        return response

    def _judge(
        self,
        request: BlockRequest,
        response: BlockResponse,
        answers: Mapping[int, Answer | Exception],
        asked: Asked,
    ) -> BlockResult:
        """Judges the answers about a block, as the renderer understands them, given what the history knows of
        it."""
        harvest, block, known = self._harvest, request.block, request.known
        walk, decision = harvest.layers[block.layer].walk, harvest.walks.decisions.layers[block.layer]
        is_kept = block.zoom in walk.kept_zooms
        versions = known.versions if is_kept else {}
        outcomes = settled_by_head(answers, versions, ~response.gets)
        found = FoundBlock(outcomes, is_kept=is_kept)
        others = answered = response.asked
        for mask in outcomes.values():
            others &= ~mask
        result = BlockResult(block, found, left=block.mask & ~answered)
        for bit in bits_of(others):
            by_get = bool(response.gets >> bit & 1)
            self._judge_tile(result, request, bit, answers[bit], versions.get(bit), by_get=by_get)
        found.seen, found.skips, found.doubts = walk.steps(
            block, outcomes, answers, known.remembered, known.trusted, asked, is_pruned=decision.is_pruned
        )
        # The walk goes on below a failed tile that is known.
        failed = outcomes.get(Outcome.FAILED, 0) & (known.present | mask_of(known.remembered))
        result.there |= tiles_with(THERE, outcomes) | failed
        unchanged = outcomes.get(Outcome.IGNORED, 0)
        for bit, latest in versions.items():
            if unchanged >> bit & 1 and latest.image is not None:
                result.spared_bytes += latest.image.size
        return result

    def _judge_tile(
        self,
        result: BlockResult,
        request: BlockRequest,
        bit: int,
        answer: Answer | Exception,
        latest: Version | None,
        *,
        by_get: bool,
    ) -> None:
        """Judges the answer about a single tile, given its latest version."""
        pause = self._patience.pause_before(request.attempt + 1, answer)
        if pause is not None:
            result.again |= 1 << bit
            result.pause = max(result.pause, pause)
            return
        harvest, found = self._harvest, result.found
        if isinstance(answer, Exception) or answer.may_pass:
            verdict: Verdict | None = Verdict(Outcome.FAILED, reason=answer_in_words(answer))
        elif not found.is_kept:
            verdict = judge_existence(answer, by_head=not by_get)
        elif by_get:
            verdict = harvest.judged(answer, latest, request.block.layer)
        else:
            verdict = judge_head(answer, latest)
        if verdict is None:
            result.gets |= 1 << bit
            return
        if verdict.reason is not None:
            verdict = replace(verdict, reason=with_attempts(verdict.reason, request.attempt))
        found.add(bit, verdict)
        if verdict.image is not None and isinstance(answer, Answer):
            result.bodies[verdict.image] = answer.body
