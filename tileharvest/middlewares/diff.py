"""Judges the answers about the tiles of a block. Nothing else judges them."""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec.structs import replace
from scrapy.exceptions import IgnoreRequest

from tileharvest.harvest.walks import located
from tileharvest.history.blocks import FoundBlock
from tileharvest.maps.settings import setting
from tileharvest.politeness.outages import no_answer_in_words
from tileharvest.scheduler.crawl import harvest_of
from tileharvest.spiders.blocks import BlockRequest, BlockResponse, Findings
from tileharvest.spiders.redirects import AskLater
from tileharvest.spiders.transfer import kinds_of
from tileharvest.tiles.block import WHOLE, bits_of, blocks_of, mask_of
from tileharvest.tiles.outcomes import THERE, Outcome
from tileharvest.tiles.questions import IN_FULL, ON_WALK
from tileharvest.tiles.verdict import (
    OK,
    PASSING,
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
    from tileharvest.tiles.block import Block
    from tileharvest.tiles.questions import Asked
    from tileharvest.tiles.results import Step
    from tileharvest.tiles.verdict import NextStep, Verdict
    from tileharvest.tiles.versions import Image, Validator, Version


_logger = logging.getLogger(__name__)


class DiffMiddleware:
    """Reads what the history knows of a block, and judges each answer: an outcome, a GET, or another attempt.

    The spider finds that in the response's `findings`. Requests that ask for no block pass untouched.
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
        """Looks the block up, and decides which of its tiles are asked by GET at once: all if HEAD tells
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
            return BlockResponse(request.url, request=request, findings=Findings(FoundBlock({})))
        if request.method == "HEAD":
            request.conditions = {
                bit: headers
                for bit, latest in known.versions.items()
                if request.block.mask >> bit & 1 and (headers := conditional_headers(latest))
            }
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
        ETag, unless HEAD tells nothing: a 304 by the date alone says nothing about the size."""
        harvest, block, asked = self._harvest, request.block, request.asked
        if not harvest.answers_head:
            return block.mask
        gets = 0
        if self._is_conditional:
            gets = mask_of(bit for bit, headers in request.conditions.items() if "If-None-Match" in headers)
        is_kept = block.zoom in harvest.layers[block.layer].walk.kept_zooms
        if is_kept and harvest.fetches_unknown and not asked.late:
            gets |= block.mask & ~mask_of(request.known.versions)
        return gets

    async def process_response(self, request: Request, response: Response) -> Response:
        if not isinstance(request, BlockRequest) or not isinstance(response, BlockResponse):
            return response
        if response.findings is not None:
            return response
        asked = request.asked
        if request.was_leased:
            # A lease on the block was lost, so what lies below may have been asked before it.
            is_late = asked.late or await self._harvest.has_gone_below(request.block)
            asked = replace(asked, again=True, late=is_late)
        judgement = _Judgement(request.block)
        judge = self._judge_of(judgement, request, response.gets, asked)
        for bit, answer in response.answers.items():
            failure = self._failure(answer)
            if failure is not None:
                self._fail(judgement, bit, failure, request.attempt)
            else:
                assert isinstance(answer, Answer)
                judge(bit, answer)
        await self._after(judgement, request, response)
        response.findings = judgement.findings(response.asked)
        return response

    def _failure(self, answer: Answer | Exception) -> _Failure | None:
        """Returns why a tile has no usable answer so far, or None if its answer can be judged."""
        if isinstance(answer, Exception):
            return _Failure(
                no_answer_in_words(answer), isinstance(answer, (AskLater, *kinds_of(self._passing)))
            )
        status = answer.status
        if status == OK:
            return None
        seconds = retry_after(answer.retry_after, datetime.now(UTC))
        is_limit = status == HTTPStatus.FORBIDDEN and seconds is not None
        if status not in PASSING and not is_limit:
            return None
        return _Failure(answer.phrase, (seconds or 0.0) <= self._longest, seconds)

    def _fail(self, judgement: _Judgement, bit: int, failure: _Failure, attempt: int) -> None:
        if failure.may_pass and attempt < self._attempts:
            judgement.again |= 1 << bit
            judgement.pause = max(judgement.pause, pause_before(attempt + 1, self._pause, failure.seconds))
        else:
            judgement.fail(bit, with_attempts(failure.reason, attempt))

    def _judge_of(
        self, judgement: _Judgement, request: BlockRequest, gets: int, asked: Asked
    ) -> Callable[[int, Answer], None]:
        """Returns a function that judges the answer about a bit's tile, given what the history knows of it.
        `gets` are the tiles that were asked by GET."""
        harvest, block, known = self._harvest, judgement.block, request.known
        layer, walk = block.layer, harvest.layers[block.layer].walk
        is_kept, is_pruned = block.zoom in walk.kept_zooms, block.layer in harvest.walks.pruned

        def judge(bit: int, answer: Answer) -> None:
            tile, by_head = block.tile(bit), not gets >> bit & 1
            latest = known.versions.get(bit) if is_kept else None
            answer = harvest.understood(answer, tile)
            verdict: Verdict | NextStep
            if not is_kept:
                verdict = judge_existence(answer, by_head=by_head)
            elif by_head:
                verdict = judge_head(answer, latest)
            else:
                verdict = harvest.judged(answer, latest, layer)
            if isinstance(verdict, str):
                judgement.gets |= 1 << bit
            elif verdict.outcome is Outcome.FAILED:
                judgement.fail(bit, with_attempts(verdict.reason or "", request.attempt))
            else:
                mark = known.remembered.get(bit)
                step = walk.step(tile, verdict.outcome, answer, mark, asked, is_pruned=is_pruned)
                judgement.add(bit, verdict, answer, step, latest)

        return judge

    async def _after(self, judgement: _Judgement, request: BlockRequest, response: BlockResponse) -> None:
        """Does what a few tiles need beyond their verdicts: the walk goes on below a failed tile if anything
        is known there, and an image that may be damaged in the store is put there again."""
        harvest, block = self._harvest, judgement.block
        for bit in judgement.reasons:
            if await harvest.knows_below(block.layer, block.tile(bit)):
                judgement.there |= 1 << bit
        for bit in bits_of(judgement.outcomes.get(Outcome.NOT_MODIFIED, 0)):
            answer = response.answers[bit]
            assert isinstance(answer, Answer)
            latest, late = request.known.versions[bit], request.asked.late
            await harvest.mend(latest, judgement.validators.get(bit), answer.body, late=late)


class _Failure(NamedTuple):
    """Why a tile has no usable answer so far."""

    reason: str
    may_pass: bool
    """Whether the tile may answer another time."""
    seconds: float | None = None
    """After how many seconds, if the server has said so."""


class _Judgement:
    """What was found of a block's tiles so far."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.outcomes: defaultdict[Outcome, int] = defaultdict(int)
        self.images: dict[int, Image] = {}
        self.bodies: dict[Image, bytes] = {}
        self.validators: dict[int, Validator] = {}
        self.reasons: dict[int, str] = {}
        self.seen: dict[int, Validator] = {}
        self.skips = self.doubts = self.gets = self.again = self.there = 0
        self.pause, self.spared_bytes = 0.0, 0
        self.is_kept = True

    def add(self, bit: int, verdict: Verdict, answer: Answer, step: Step, latest: Version | None) -> None:
        self.outcomes[verdict.outcome] |= 1 << bit
        if verdict.image is not None:
            self.images[bit] = verdict.image
            self.bodies[verdict.image] = answer.body
        if verdict.validator is not None:
            self.validators[bit] = verdict.validator
        if verdict.outcome is Outcome.IGNORED and latest is not None and latest.image is not None:
            self.spared_bytes += latest.image.size
        self.is_kept = step.is_kept
        self.skips |= step.skips << bit
        self.doubts |= step.doubts << bit
        if step.seen is not None:
            self.seen[bit] = step.seen
        self.there |= (verdict.outcome in THERE) << bit

    def fail(self, bit: int, reason: str) -> None:
        self.outcomes[Outcome.FAILED] |= 1 << bit
        self.reasons[bit] = reason

    def findings(self, asked: int) -> Findings:
        """Returns all that was found. `asked` has the tiles that have an answer or a failure."""
        found = FoundBlock(
            outcomes=dict(self.outcomes),
            images=self.images,
            validators=self.validators,
            reasons=self.reasons,
            seen=self.seen,
            skips=self.skips,
            doubts=self.doubts,
            is_kept=self.is_kept,
        )
        return Findings(
            found,
            bodies=self.bodies,
            gets=self.gets,
            again=self.again,
            pause=self.pause,
            left=self.block.mask & ~asked,
            there=self.there,
            skips=self.skips,
            spared_bytes=self.spared_bytes,
        )
