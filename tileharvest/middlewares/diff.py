"""Has it changed? Puts the pure verdicts between the network and the spider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from tileharvest.queue.requests import ATTEMPT, AUDITED, IN_FULL, LATE, NOT_SENT
from tileharvest.scheduler.crawl import harvesting_of
from tileharvest.tiles.grid import Tile
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.results import TileResult
from tileharvest.tiles.verdict import (
    Answer,
    NextStep,
    Verdict,
    conditional_headers,
    judge_existence,
    judge_get,
    judge_head,
    with_attempts,
)
from tileharvest.tiles.versions import Validator
from tileharvest.walk.trust import Asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from tileharvest.harvest.harvest import Harvesting
    from tileharvest.tiles.versions import Version

GETS: Final = 1
"""Priority of the lane for what changed: plus."""


class DiffMiddleware:
    """Turns a HEAD's answer into an outcome or a GET, and a GET's answer into an outcome.

    The outcome travels to the spider as `response.meta["result"]`, a TileResult, with
    `response.meta["known"]`: whether the history has the tile, or after a failure anything below it.
    Requests without a tile in their meta pass untouched.
    """

    def __init__(self, harvesting: Harvesting) -> None:
        self._harvesting = harvesting
        self._refusing_head: set[str] = set()
        self._is_conditional = harvesting.description.check == "conditional"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(harvesting_of(crawler))

    def process_request(self, request: Request) -> Awaitable[Request | None] | None:
        """A host that has refused one HEAD would refuse them all: ask it by GET at once. So may a person wish
        it for tiles that are known."""
        meta = request.meta
        if "tile" not in meta:
            return None
        if meta.get(ATTEMPT, 1) > 1:
            # What lies below may have been asked after the attempt before this one.
            meta[LATE] = True
        if request.method == "HEAD" and meta["download_slot"] in self._refusing_head:
            return self._instead(request, is_known=False)
        if request.method == "HEAD" and self._is_conditional and self._keeps(request):
            return self._instead(request, is_known=True)
        return None

    async def _instead(self, request: Request, *, is_known: bool) -> Request | None:
        """The GET that takes the place of a HEAD, which is not sent then. Where only tiles that are known are
        asked by it (`is_known`), None for others: a HEAD costs less, as the tile may not be there. So too
        where no ETag is known: a 304 by the date alone would tell nothing of the size."""
        headers = conditional_headers(await self._latest(request))
        if is_known and "If-None-Match" not in headers:
            return None
        get = _get(request, headers)
        request.meta[NOT_SENT] = True
        return get

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        if "tile" not in request.meta:
            return response
        latest = await self._latest(request)
        answer = _answer(response)
        verdict = self._judge(request, answer, latest)
        if verdict is NextStep.GET:
            return _get(request)
        if verdict is NextStep.GET_IF_NONE_MATCH:
            self._refusing_head.add(request.meta["download_slot"])
            return _get(request, conditional_headers(latest))
        await self._pass_on(request, verdict, answer, latest)
        return response

    def _judge(self, request: Request, answer: Answer, latest: Version | None) -> Verdict | NextStep:
        if not self._keeps(request):
            return judge_existence(answer, by_head=request.method == "HEAD")
        if request.method == "HEAD":
            return judge_head(answer, latest)
        return judge_get(answer, latest, self._harvesting.day)

    async def _pass_on(
        self, request: Request, verdict: Verdict, answer: Answer, latest: Version | None
    ) -> None:
        meta = request.meta
        layer, tile = meta["layer"], Tile(*meta["tile"])
        known = latest is not None and not latest.gone
        reason = verdict.reason
        if verdict.outcome is Outcome.IGNORED and latest is not None and latest.image is not None:
            self._harvesting.traffic.spared_bytes += latest.image.size
        if verdict.outcome is Outcome.FAILED:
            known = await self._harvesting.knows_below(layer, tile)
            reason = with_attempts(reason or "", meta.get("retry_times", 0) + 1)
        meta["known"] = known
        asked = Asked(LATE in meta, IN_FULL in meta, AUDITED in meta)
        meta["result"] = TileResult(
            layer,
            tile,
            verdict.outcome,
            image=verdict.image,
            body=None if verdict.image is None else answer.body,
            validator=verdict.validator,
            reason=reason,
            step=await self._harvesting.walks.step(layer, tile, verdict.outcome, answer, asked),
        )

    async def _latest(self, request: Request) -> Version | None:
        if not self._keeps(request):
            return None
        return await self._harvesting.latest(request.meta["layer"], Tile(*request.meta["tile"]))

    def _keeps(self, request: Request) -> bool:
        zoom: int = request.meta["tile"][0]
        return self._harvesting.layers[request.meta["layer"]].walk.keeps(zoom)


def _get(request: Request, headers: Mapping[str, str] | None = None) -> Request:
    return request.replace(method="GET", priority=GETS, headers=headers)


def _answer(response: Response) -> Answer:
    headers = response.headers
    length = _text(headers.get("Content-Length"))
    return Answer(
        status=response.status,
        validator=Validator(_text(headers.get("ETag")), _text(headers.get("Last-Modified"))),
        length=int(length) if length is not None and length.isdigit() else None,
        body=response.body,
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
