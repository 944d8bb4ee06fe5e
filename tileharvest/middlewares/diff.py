"""Judges the answers about tiles: an outcome for the spider, or a GET."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal, Self

from msgspec.structs import replace

from tileharvest.history.known import block_of
from tileharvest.queue.requests import STATE, state_of
from tileharvest.scheduler.blocks import Block
from tileharvest.scheduler.crawl import harvest_of
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import (
    HEAD_REFUSED,
    Answer,
    HeadSupport,
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
    from tileharvest.tiles.verdict import NextStep, Verdict
    from tileharvest.tiles.versions import Image, Version
    from tileharvest.walk.trust import Mark

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
        self.heads: defaultdict[str, HeadSupport] = defaultdict(HeadSupport)
        """What is known of the answers to HEAD, by host."""
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
        is_refused = not self._harvest.answers_head or self.heads[request.meta["download_slot"]].is_refused
        if is_refused or self._is_conditional or self._harvest.fetches_unknown:
            return self._instead(request, question, is_refused=is_refused)
        return None

    def keeps_method(self, method: str, question: TileQuestion, host: str) -> bool:
        """Returns whether a tile is asked by this method at this host, as far as is known now: a GET always,
        and a HEAD if no GET would take its place."""
        if method == "GET":
            return True
        if not self._harvest.answers_head or self.heads[host].is_refused:
            return False
        return not (self._is_conditional or self._harvest.fetches_unknown) or not self._is_kept(question)

    def note_refusal(self, host: str) -> None:
        """Notes that the host has refused a HEAD, as it would refuse all."""
        self.heads[host].is_refused = True

    def found_at_once(
        self, question: TileQuestion, answer: Answer, *, by_head: bool
    ) -> tuple[TileResult, Image | None] | Literal["GET"] | None:
        """Returns the result of a tile, and the image that the history has of it; or "GET" if a HEAD does not
        settle the outcome. Returns None if the history would have to be asked first, and for what is rare:
        failures, tiles that have vanished, and images that may have to be stored again."""
        harvest, (layer, tile) = self._harvest, question.place
        block, cell = harvest.walks.known.at_hand(block_of(layer, tile)), (tile.zoom, tile.x, tile.y)
        if block is None:
            return None
        versions, marks = block
        latest = versions.get(cell) if tile.zoom in harvest.layers[layer].walk.kept_zooms else None
        found = self._found(question, answer, latest, marks.get(cell), by_head=by_head)
        if isinstance(found, str):
            return "GET" if found == "GET" else None
        is_unchanged = found.outcome is Outcome.IGNORED
        if not is_unchanged and (
            found.outcome in _NOT_AT_ONCE or harvest.may_be_damaged(latest, found, late=question.asked.late)
        ):
            return None
        return found, None if latest is None else latest.image

    def _is_kept(self, question: TileQuestion) -> bool:
        layer, tile = question.place
        return tile.zoom in self._harvest.layers[layer].walk.kept_zooms

    async def _known(self, question: TileQuestion) -> tuple[Version | None, Mark | None]:
        """Returns the latest version of a tile, if it is of a zoom that is kept, and its mark."""
        latest, mark = await self._harvest.walks.known.of(*question.place)
        return latest if self._is_kept(question) else None, mark

    def _found(
        self,
        question: TileQuestion,
        answer: Answer,
        latest: Version | None,
        mark: Mark | None,
        *,
        by_head: bool,
    ) -> TileResult | NextStep:
        """Returns the result of a tile, given its latest version and what the walk remembers of it. If the
        answer does not settle the outcome, returns the request that follows."""
        harvest, (layer, tile) = self._harvest, question.place
        walk, heads = harvest.layers[layer].walk, self.heads[harvest.layers[layer].layer.host]
        is_expected = tile.zoom not in walk.kept_zooms or (latest is not None and not latest.gone)
        if not by_head:
            heads.learn(question.place, answer.status)
        elif heads.doubts(question.place, answer.status, is_expected=is_expected):
            return "conditional GET"
        answer = harvest.understood(answer, tile)
        verdict: Verdict | NextStep
        if tile.zoom not in walk.kept_zooms:
            verdict = judge_existence(answer, by_head=by_head)
        elif by_head:
            verdict = judge_head(answer, latest)
        else:
            verdict = harvest.judged(answer, latest, layer)
        if isinstance(verdict, str):
            return verdict
        is_pruned = layer in harvest.walks.pruned
        return TileResult(
            layer,
            tile,
            verdict.outcome,
            image=verdict.image,
            body=None if verdict.image is None else answer.body,
            validator=verdict.validator,
            reason=verdict.reason,
            step=walk.step(tile, verdict.outcome, answer, mark, question.asked, is_pruned=is_pruned),
            again=question.asked.again,
        )

    async def _instead(self, request: Request, question: TileQuestion, *, is_refused: bool) -> Request | None:
        """Returns the GET that takes the place of a HEAD, which is then not sent. Returns None if the HEAD is
        to be sent.

        Unless the host refuses HEAD, a known tile is asked by GET only with its ETag: a 304 by the date alone
        tells nothing of the size. An unknown tile is asked by HEAD if it is asked once more, as it may be
        known since.
        """
        latest, _ = await self._known(question)
        headers = conditional_headers(latest)
        is_unknown = latest is None and not (question.asked.late or question.asked.again)
        is_fetched = is_unknown and self._is_kept(question) and self._harvest.fetches_unknown
        if not (is_refused or is_fetched or (self._is_conditional and "If-None-Match" in headers)):
            return None
        get = _get(request, headers)
        state_of(request).was_sent = False
        return get

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        state: RequestState | None = request.meta.get(STATE)
        if state is None or state.question is None:
            return response
        harvest, question, by_head = self._harvest, state.question, request.method == "HEAD"
        (layer, tile), asked = question.place, question.asked
        answer = answer_of(response)
        if not by_head:
            answer = replace(answer, length=len(answer.body))
        elif answer.status in HEAD_REFUSED:
            # This comes before anything is waited for, as further tiles are asked meanwhile.
            self.note_refusal(request.meta["download_slot"])
        if asked.again and not asked.late:
            is_late = await harvest.has_gone_below(layer, tile)
            question = replace(question, asked=replace(asked, late=is_late))
        latest, mark = await self._known(question)
        found = self._found(question, answer, latest, mark, by_head=by_head)
        if isinstance(found, str):
            return _get(request, conditional_headers(latest) if found == "conditional GET" else None)
        image = None if latest is None else latest.image
        state.known = image is not None
        if found.outcome is Outcome.IGNORED and image is not None:
            harvest.traffic.spared_bytes += image.size
        await harvest.mend(latest, found, answer.body, late=asked.late)
        if found.outcome is Outcome.FAILED:
            state.known = await harvest.knows_below(layer, tile)
            attempts = request.meta.get("retry_times", 0) + 1
            found = replace(found, reason=with_attempts(found.reason or "", attempts))
        state.result = found
        return response


def _get(request: Request, headers: Mapping[str, str] | None = None) -> Request:
    return request.replace(method="GET", priority=GETS, headers=headers)


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
