"""Judges the answers about tiles: an outcome for the spider, or a GET."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from msgspec.structs import replace

from tileharvest.queue.requests import STATE, state_of
from tileharvest.scheduler.blocks import Block
from tileharvest.scheduler.crawl import harvest_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import (
    HEAD_REFUSED,
    Answer,
    conditional_headers,
    judge_existence,
    judge_head,
    length_of,
    with_attempts,
)
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.queue.requests import RequestState
    from tileharvest.tiles.questions import TileQuestion
    from tileharvest.tiles.results import Step
    from tileharvest.tiles.verdict import NextStep, Verdict
    from tileharvest.tiles.versions import Image, Version

GETS: Final = 1
"""Priority of the lane for what changed: plus."""


_NOT_AT_ONCE: Final = (Outcome.FAILED, Outcome.GONE)
"""Outcomes for which the history must be asked more than about the tile itself."""


class DiffMiddleware:
    """Turns a HEAD's answer into an outcome or a GET, and a GET's answer into an outcome.

    The spider finds the outcome in the request's state: `result`, and `known`. Requests that ask for no tile
    pass untouched. The middleware is the one nearest to the engine. So it answers blocks, and requests whose
    answer has come before, and no other middleware sees how they are asked.
    """

    def __init__(self, harvest: Harvest) -> None:
        self._harvest = harvest
        self._refusing_head: set[str] = set()
        self._is_conditional = harvest.description.check == "conditional"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(harvest_of(crawler))

    def process_request(self, request: Request) -> Awaitable[Request | Response | None] | Response | None:
        """Returns the GET that takes the place of a HEAD: if the host has refused another HEAD, as it would
        refuse all; for a known tile if the map has `check = "conditional"`; and for an unknown tile of a map
        that was never harvested to the end."""
        if isinstance(request, Block):
            return request.way.ask_all(request)
        state: RequestState | None = request.meta.get(STATE)
        if state is None or state.question is None:
            return None
        if state.answer is not None:
            answer, state.answer = state.answer, None
            if isinstance(answer, Exception):
                raise answer
            given: Response = answer
            return given
        question = state.question
        if state.attempt > 1:
            question = state.question = replace(question, asked=replace(question.asked, again=True))
        if request.method != "HEAD":
            return None
        is_refused = not self._harvest.answers_head or request.meta["download_slot"] in self._refusing_head
        if is_refused or self._is_conditional or self._harvest.fetches_unknown:
            return self._instead(request, question, is_refused=is_refused)
        return None

    def asks_by_head(self, question: TileQuestion, host: str) -> bool:
        """Returns whether a HEAD that asks this question is never replaced by a GET at this host, as far as
        is known now."""
        if not self._harvest.answers_head or host in self._refusing_head:
            return False
        return not (self._is_conditional or self._harvest.fetches_unknown) or not self._is_kept(question)

    def note_refusal(self, host: str) -> None:
        """Notes that the host has refused a HEAD, as it would refuse all."""
        self._refusing_head.add(host)

    def found_at_once(
        self, question: TileQuestion, answer: Answer, *, by_head: bool
    ) -> tuple[TileResult, Image | None] | Literal["GET"] | None:
        """Returns the result of a tile, and the image that the history has of it; or "GET" if a HEAD does not
        settle the outcome. Returns None if the history would have to be asked first, and for what is rare:
        failures, tiles that have vanished, and images that may have to be stored again."""
        harvest, (layer, tile) = self._harvest, question.place
        answer = harvest.understood(answer, tile)
        is_known, latest = harvest.versions.at_hand(layer, tile) if self._is_kept(question) else (True, None)
        is_marked, mark = harvest.walks.marks.at_hand(layer, tile)
        if not (is_known and is_marked):
            return None
        verdict = self._verdict(question, answer, latest, by_head=by_head)
        if verdict == "GET":
            return "GET"
        if isinstance(verdict, str) or verdict.outcome in _NOT_AT_ONCE:
            return None
        if harvest.may_be_damaged(latest, verdict, late=question.asked.late):
            return None
        step = harvest.walks.step_with(mark, layer, tile, verdict.outcome, answer, question.asked)
        return _result(question, verdict, answer, step), None if latest is None else latest.image

    def _is_kept(self, question: TileQuestion) -> bool:
        layer, tile = question.place
        return tile.zoom in self._harvest.layers[layer].walk.kept_zooms

    def _verdict(
        self, question: TileQuestion, answer: Answer, latest: Version | None, *, by_head: bool
    ) -> Verdict | NextStep:
        """Judges the understood answer, given the tile's latest version."""
        if not self._is_kept(question):
            return judge_existence(answer, by_head=by_head)
        return judge_head(answer, latest) if by_head else self._harvest.judged(answer, latest, question.layer)

    async def _instead(self, request: Request, question: TileQuestion, *, is_refused: bool) -> Request | None:
        """Returns the GET that takes the place of a HEAD, which is then not sent. Returns None if the HEAD is
        to be sent.

        Unless the host refuses HEAD, a known tile is asked by GET only with its ETag: a 304 by the date alone
        tells nothing of the size. An unknown tile is asked by HEAD if it is asked once more, as it may be
        known since.
        """
        layer, tile = question.place
        is_kept = self._is_kept(question)
        latest = await self._harvest.versions.of(layer, tile) if is_kept else None
        headers = conditional_headers(latest)
        is_unknown = is_kept and latest is None and not (question.asked.late or question.asked.again)
        is_fetched = is_unknown and self._harvest.fetches_unknown
        if not (is_refused or is_fetched or (self._is_conditional and "If-None-Match" in headers)):
            return None
        get = _get(request, headers)
        state_of(request).was_sent = False
        return get

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        state: RequestState | None = request.meta.get(STATE)
        if state is None or state.question is None:
            return response
        question = state.question
        (layer, tile), asked = question.place, question.asked
        by_head = request.method == "HEAD"
        answer = answer_of(response)
        if not by_head:
            answer = replace(answer, length=len(answer.body))
        answer = self._harvest.understood(answer, tile)
        if by_head and answer.status in HEAD_REFUSED:
            # This comes before anything is waited for, as further tiles are asked meanwhile.
            self.note_refusal(request.meta["download_slot"])
        latest = await self._harvest.versions.of(layer, tile) if self._is_kept(question) else None
        verdict = self._verdict(question, answer, latest, by_head=by_head)
        if verdict == "GET":
            return _get(request)
        if verdict == "conditional GET":
            return _get(request, conditional_headers(latest))
        image = None if latest is None else latest.image
        state.known, reason = image is not None, verdict.reason
        if verdict.outcome is Outcome.IGNORED and image is not None:
            self._harvest.traffic.spared_bytes += image.size
        await self._harvest.mend(latest, verdict, answer.body, late=asked.late)
        if verdict.outcome is Outcome.FAILED:
            state.known = await self._harvest.knows_below(layer, tile)
            reason = with_attempts(reason or "", request.meta.get("retry_times", 0) + 1)
        if asked.again and not asked.late:
            asked = replace(asked, late=await self._harvest.has_gone_below(layer, tile))
        step = await self._harvest.walks.step(layer, tile, verdict.outcome, answer, asked)
        state.result = _result(question, verdict, answer, step, reason)
        return response


def _get(request: Request, headers: Mapping[str, str] | None = None) -> Request:
    return request.replace(method="GET", priority=GETS, headers=headers)


def _result(
    question: TileQuestion, verdict: Verdict, answer: Answer, step: Step, reason: str | None = None
) -> TileResult:
    layer, tile = question.place
    return TileResult(
        layer,
        tile,
        verdict.outcome,
        image=verdict.image,
        body=None if verdict.image is None else answer.body,
        validator=verdict.validator,
        reason=reason,
        step=step,
        again=question.asked.again,
    )


def answer_of(response: Response) -> Answer:
    """Returns the parts of a response that a verdict is made of."""
    headers = response.headers
    etag, modified, length = headers.get("ETag"), headers.get("Last-Modified"), headers.get("Content-Length")
    location = headers.get("Location")
    validator = Validator(
        None if etag is None else etag.decode("latin-1"),
        None if modified is None else modified.decode("latin-1"),
    )
    return Answer(
        status=response.status,
        validator=validator,
        length=length_of(length),
        body=response.body,
        location=None if location is None else location.decode("latin-1"),
    )
