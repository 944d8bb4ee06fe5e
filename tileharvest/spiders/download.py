"""The download handler of blocks and of a site's own files, over libcurl's connections."""

from __future__ import annotations

import asyncio
import time
from bisect import insort
from collections import defaultdict, deque
from datetime import UTC, datetime
from functools import cached_property, partial
from http import HTTPStatus
from operator import attrgetter
from secrets import choice
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit
from weakref import WeakSet

import pycurl
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.utils.url import add_http_if_no_scheme

from tileharvest.maps.settings import setting
from tileharvest.politeness.robots import FORBIDDEN
from tileharvest.politeness.settings import outage_limits
from tileharvest.politeness.waits import HeldError, Wait
from tileharvest.scheduler.crawl import as_error, cancel, crawl_of
from tileharvest.spiders.blocks import ATTEMPT, BlockRequest, BlockResponse
from tileharvest.spiders.connections import connections
from tileharvest.spiders.outages import Outages, Patience
from tileharvest.spiders.redirects import REDIRECTS, addresses_of, follow
from tileharvest.spiders.transfer import (
    HTTP_1_1,
    HTTP_2,
    Reply,
    Terms,
    Transfer,
    header_lines,
    shared_options,
)
from tileharvest.tiles.block import WHOLE, mask_of
from tileharvest.tiles.verdict import (
    GONE_STATUSES,
    OK,
    Answer,
    HeadSupport,
    conditional_headers,
    retry_after,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy.crawler import Crawler

    from tileharvest.politeness.map_throttle import MapThrottle
    from tileharvest.tiles.layers import Layer

_PLAIN: Final = frozenset({OK, HTTPStatus.NOT_MODIFIED, *GONE_STATUSES})
"""The statuses that say whether a tile is there, and nothing of its host that is not known."""

LONGEST: Final = 5.0
"""Seconds from the first tile of a block to its last one. What is left then goes back into the queue, so that
a slow site records every few seconds, and what is urgent waits no longer than that."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of bodies after which a block is cut short, which bounds the memory."""


class TileDownloadHandler:
    """Asks for the tiles of blocks one by one, as the throttle lets them start, and returns whole blocks.

    A map's `concurrency` counts tiles on the way, of whichever block. Tiles of the block with the highest
    priority start first. A block is cut short, and its rest is `left`, after `LONGEST` seconds, after
    `MOST_BYTES` of bodies, and when the throttle holds: in a pause, in quiet hours, while the host rests or
    is down, when a budget is spent, and when the crawl is about to end.

    Any other request is one transfer, for which the throttle gives a turn as well. As with Scrapy's own
    handlers, `download_timeout` is for the whole answer, an answer that is larger than `download_maxsize` is
    given up, certificates are checked as the settings say, and `meta["proxy"]` names a proxy. The handler
    keeps no cookie. It also gives up an answer that for `DOWNLOAD_LOW_SPEED_TIME` seconds brings less than
    `DOWNLOAD_LOW_SPEED_LIMIT` bytes a second, or that has more headers, or more interim answers before it,
    than any server has a use for. If the setting `USER_AGENTS` lists several, each block has any of them.
    """

    lazy = True
    """Scrapy makes the handler for the first request. It needs a running event loop, and the shell has one
    only then."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler, self._crawl, settings = crawler, crawl_of(crawler), crawler.settings
        self._adapts = settings.getbool("AUTOTHROTTLE_ENABLED")
        self._patience = Patience(settings)
        self._outages = Outages(self._crawl, outage_limits(settings), self._patience, self._probe)
        self._own: tuple[str, ...] | None = None
        """The IP addresses of the map's own host, once they are known."""
        self._loop = asyncio.get_running_loop()
        self._agents = settings.getlist("USER_AGENTS", setting(settings, "USER_AGENTS"))
        self._timeout = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._most_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        self._least = int(setting(settings, "DOWNLOAD_LOW_SPEED_LIMIT"))
        # libcurl's own bound for a connection, which 0 would be, is 300 s.
        self._silence = float(setting(settings, "DOWNLOAD_LOW_SPEED_TIME")) or self._timeout
        self._options = shared_options(settings)
        self._connections = connections()
        self._idle: dict[str, list[Transfer]] = {"HEAD": [], "GET": []}
        self._transfers: WeakSet[Transfer] = WeakSet()
        """Those under way, and those whose handles are kept."""
        self._open: list[_BlockDownload] = []
        """The blocks that have not ended, the most urgent first."""
        self._starting: dict[str, asyncio.Task[None]] = {}
        """By host: starts its tiles while there are any that have not started. So a host without a free place
        keeps no tile of another one waiting."""
        self._heads: defaultdict[str, HeadSupport] = defaultdict(HeadSupport)
        """By host: what is known of its answers to HEAD."""
        self._beside: set[asyncio.Task[None]] = set()
        """What goes on beside the blocks: redirected tiles, and rests that the other workers hear of."""
        self._crawl.oldest_requests.append(self._oldest)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        # Behind a proxy names need not be known here, and each look-up may take seconds.
        if not self._own and self._crawl.rules is not None and not request.meta.get("proxy"):
            self._own = tuple(await addresses_of(self._crawl.rules.host))
        if isinstance(request, BlockRequest):
            return await self._download_block(request)
        url, terms = request.url, self._terms(request)
        reply = await self._ask(request.method, url, terms, request.body)
        if isinstance(reply, Exception):
            raise reply
        if "dont_redirect" not in request.meta:
            url, reply = await follow(self._crawl, self._ask, request.method, url, reply, terms)
        headers = Headers(reply.headers())
        kind = responsetypes.from_args(headers=headers, url=url, body=reply.body)
        return kind(url, status=reply.status, headers=headers, body=reply.body)

    async def close(self) -> None:
        await self._outages.close()
        for task in (*self._starting.values(), *self._beside):
            await cancel(task)
        if self._oldest in self._crawl.oldest_requests:
            self._crawl.oldest_requests.remove(self._oldest)
            self._connections.close()

    # Blocks

    async def _download_block(self, request: BlockRequest) -> BlockResponse:
        harvest = self._crawl.harvest
        assert harvest is not None
        layer = harvest.layers[request.block.layer].layer
        heads = self._heads[layer.host]
        block = _BlockDownload(request, layer, heads, self._terms(request), self._loop.create_future())
        if self._adapts:
            # The delay that Scrapy's AutoThrottle has found to suit the host.
            slot = self._crawler.engine.downloader.slots[request.meta["download_slot"]]
            self._throttle.adapted = slot.delay
        insort(self._open, block, key=attrgetter("urgency"))
        robots = self._crawl.robots
        if robots.rules:
            for bit, url in block.urls.items():
                if not robots.allows(url):
                    block.answers[bit] = IgnoreRequest(FORBIDDEN)
                    block.waiting.remove(bit)
        self._go_on(block.host)
        block.end_if_complete()
        try:
            await block.done
        finally:
            block.waiting.clear()
            self._open.remove(block)
            if block.timer is not None:
                # Otherwise it would keep all bodies in memory until then.
                block.timer.cancel()
        if block.requests:
            request.meta["download_latency"] = block.seconds / block.requests
        return block.response()

    def _go_on(self, host: str) -> None:
        """Lets the tiles of a host start that wait, unless a task is at it."""
        if host not in self._starting or self._starting[host].done():
            self._starting[host] = asyncio.ensure_future(self._start_tiles(host))

    async def _start_tiles(self, host: str) -> None:
        """Starts the tiles of a host as the throttle lets them. While it holds, blocks are cut short."""
        throttle = self._throttle
        try:
            while (first := self._next_block(host)) is not None:
                number = await throttle.turn(host, len(first.waiting))
                if not number:
                    break
                # The most urgent block may be another one by now.
                if (block := self._next_block(host)) is not None:
                    number -= self._start_some(block, number)
                throttle.left(host, number)
        except Exception as error:  # noqa: BLE001 - or nothing would be asked for ever
            self._crawl.end(as_error(error))
        for one in self._open:
            if one.host == host:
                one.cut()

    def _next_block(self, host: str) -> _BlockDownload | None:
        """Returns the most urgent block of a host of which tiles have not started."""
        return next((one for one in self._open if one.waiting and one.host == host), None)

    @cached_property
    def _throttle(self) -> MapThrottle:
        throttle = self._crawl.throttle
        assert throttle is not None
        return throttle

    def _start_some(self, block: _BlockDownload, most: int) -> int:
        """Starts the next tiles of a block, for which there are so many places. Returns their number."""
        number = min(most, len(block.waiting))
        request, asked = block.request, block.request.method
        transfers = []
        for _ in range(number):
            bit = block.waiting.popleft()
            if block.heads.is_avoided:
                block.gets |= 1 << bit
            method, terms = asked, block.terms
            if block.gets >> bit & 1 and asked == "HEAD":
                # It asks whether the tile has changed. Any other GET is made because it has.
                method = "GET"
                conditions = conditional_headers(request.known.versions.get(bit))
                if conditions:
                    terms = terms.with_headers(conditions)
            answered = partial(self._replied, block, bit)
            transfers.append(self._transfer(method, block.urls[bit], terms, answered))
        # Only now, as a block ends when none of its tiles are on the way, also after a mistake above.
        block.under_way += number
        block.requests += number
        self._crawl.cost_meter.requests += number
        if block.timer is None:
            block.timer = self._loop.call_later(LONGEST, block.cut)
        self._connections.begin(*transfers)
        return number

    def _replied(self, block: _BlockDownload, bit: int, transfer: Transfer, reply: Reply | Exception) -> None:
        """Keeps what came for a tile, and ends its block if that was the last one."""
        block.seconds += self._loop.time() - transfer.since
        block.under_way -= 1
        self._throttle.left(block.host)
        if isinstance(reply, Exception):
            self._understand(block, bit, reply)
        else:
            answer, heads = reply.answer(by_head=transfer.method == "HEAD"), block.heads
            if reply.body:
                block.size += len(reply.body)
                self._throttle.count_bytes(len(reply.body))
            # Most answers say whether the tile is there, and nothing new of its host.
            is_plain = answer.status in _PLAIN and block.host in self._outages.well and not heads.suspect
            if is_plain and (heads.is_answered or block.gets >> bit & 1):
                block.answers[bit] = answer
            elif answer.location is not None and self._is_redirect(answer):
                block.following += 1
                self._keep(self._follow(block, bit, transfer.method, transfer.url, transfer.terms, reply))
                return
            else:
                self._understand(block, bit, answer)
        if block.size >= MOST_BYTES:
            block.cut()
        if not block.under_way:
            block.end_if_complete()

    def _is_redirect(self, answer: Answer) -> bool:
        """Returns whether an answer sends us elsewhere. The renderer may understand it as an answer about the
        tile."""
        harvest = self._crawl.harvest
        assert harvest is not None
        return answer.status in REDIRECTS and harvest.understood(answer).status == answer.status

    async def _follow(
        self, block: _BlockDownload, bit: int, method: str, url: str, terms: Terms, reply: Reply
    ) -> None:
        """Follows the redirect of a tile to its end. A tile that would have to wait there, while something
        holds requests back, is left."""
        found: Answer | Exception | None = None
        ask = partial(self._ask, waits=False)
        try:
            _, last = await follow(self._crawl, ask, method, url, reply, terms)
            found = last.answer(by_head=method == "HEAD")
            block.size += len(found.body)
        except HeldError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever a transfer raises means: no answer
            found = error
        block.following -= 1
        if found is not None:
            self._understand(block, bit, found)
        if block.size >= MOST_BYTES:
            block.cut()
        block.end_if_complete()

    def _understand(self, block: _BlockDownload, bit: int, answer: Answer | Exception) -> None:
        """Notes what an answer says of a tile, and what it says of its host."""
        host = block.host
        status, url = answer.status if isinstance(answer, Answer) else 0, block.urls[bit]
        if block.gets >> bit & 1:
            block.heads.learn(status, url)
        elif block.heads.doubts(status, url, is_expected=bool(block.request.expected >> bit & 1)):
            # It starts again, by GET.
            block.gets |= 1 << bit
            block.waiting.appendleft(bit)
            self._go_on(host)
            return
        counts = self._outages.judged(host, block.url, answer, block.attempt)
        if counts is None:
            self._leave_in_doubt(host)
            return
        block.answers[bit] = counts
        if isinstance(counts, Answer) and counts.retry_after is not None:
            self._rest_as_asked(host, counts)

    def _leave_in_doubt(self, host: str) -> None:
        """Takes back the failures and refusals of a host that is doubted, so that these tiles are left, and
        lose no attempt."""
        is_in_doubt = self._outages.is_in_doubt
        for block in self._open:
            if block.host == host:
                found = block.answers.items()
                block.answers = {bit: answer for bit, answer in found if not is_in_doubt(answer)}

    def _rest_as_asked(self, host: str, answer: Answer) -> None:
        """Lets the whole host rest, if it has asked for that by Retry-After."""
        seconds = retry_after(answer.retry_after, datetime.now(UTC)) if answer.may_pass else None
        if seconds:
            if answer.status == HTTPStatus.FORBIDDEN and self._throttle.held is None:
                self._outages.slow_down(host)
            self._keep(self._throttle.rest(host, min(seconds, self._patience.longest_rest)))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets something go on beside the blocks until the handler is closed."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # Single requests

    async def _ask(
        self, method: str, url: str, terms: Terms, body: bytes = b"", *, waits: bool = True
    ) -> Reply | Exception:
        """Asks a single address, within the limits of its host. Returns the answer, or why there is none.
        Raises HeldError, unless the request `waits`, while something holds requests back."""
        throttle, host = self._crawl.throttle, urlsplit(url).hostname or ""
        if throttle is None:
            # One of Scrapy's tools asks for a page.
            return await self._send_one(method, url, terms, body)
        async with throttle.place(host, waits=waits):
            self._crawl.cost_meter.requests += 1
            reply = await self._send_one(method, url, terms, body)
        if isinstance(reply, Reply):
            throttle.count_bytes(len(reply.body))
            self._rest_as_asked(host, reply.answer(by_head=method == "HEAD"))
        return reply

    async def _send_one(self, method: str, url: str, terms: Terms, body: bytes = b"") -> Reply | Exception:
        replied: asyncio.Future[Reply | Exception] = self._loop.create_future()

        def answered(_transfer: Transfer, reply: Reply | Exception) -> None:
            if not replied.done():
                replied.set_result(reply)

        transfer = self._transfer(method, url, terms, answered, body)
        self._connections.begin(transfer)
        try:
            return await replied
        except asyncio.CancelledError:
            # The transfer ends with its caller.
            self._connections.stop(transfer)
            raise

    async def _probe(self, url: str) -> Answer | Exception:
        """Asks whether a host answers at all, although nothing else may start."""
        harvest = self._crawl.harvest
        host = urlsplit(url).hostname or ""
        is_by_get = self._heads[host].is_avoided or (harvest is not None and not harvest.answers_head)
        self._crawl.cost_meter.requests += 1
        reply = await self._send_one("GET" if is_by_get else "HEAD", url, self._terms(Request(url)))
        if isinstance(reply, Exception):
            return reply
        answer = reply.answer(by_head=not is_by_get)
        self._rest_as_asked(host, answer)
        return answer

    # Transfers

    def _transfer(
        self,
        method: str,
        url: str,
        terms: Terms,
        answered: Callable[[Transfer, Reply | Exception], None],
        body: bytes = b"",
    ) -> Transfer:
        """Returns a request that is ready to begin. `answered` is called once."""
        idle = None if body else self._idle.get(method)
        if idle:
            transfer = idle.pop()
        else:
            transfer = Transfer(method, self._options, idle)
            self._transfers.add(transfer)
        transfer.prepare(url, terms, body)
        transfer.answered, transfer.since = answered, self._loop.time()
        return transfer

    def _terms(self, request: Request) -> Terms:
        """Returns how a request is sent: its headers, its proxy and its bounds."""
        headers, meta = request.headers, request.meta
        if len(self._agents) > 1 and isinstance(request, BlockRequest):
            headers = headers.copy()
            headers["User-Agent"] = choice(self._agents)
        proxy, leave = meta.get("proxy"), headers.get("Proxy-Authorization")
        return Terms(
            header_lines(headers),
            meta.get("download_timeout", self._timeout),
            meta.get("download_maxsize", self._most_bytes),
            self._silence,
            self._least,
            add_http_if_no_scheme(proxy) if proxy else None,
            (b"Proxy-Authorization: " + leave,) if proxy and leave else (),
            # A repeat uses HTTP/1.1, as HTTP/2 may have failed. libcurl would find that out by sending again.
            HTTP_1_1 if ATTEMPT in meta else HTTP_2,
            # The address of a proxy does not give away that of the site.
            None if proxy else self._own,
        )

    def _oldest(self) -> Wait | None:
        """Returns the answer that has been waited for longest, and when it is given up. None if there is
        none."""
        under_way = [transfer for transfer in self._transfers if transfer.answered is not None]
        if not under_way:
            return None
        transfer = min(under_way, key=attrgetter("since"))
        has_begun = transfer.curl.getinfo(pycurl.HEADER_SIZE)
        patience = self._timeout if has_begun or not self._least else min(self._silence, self._timeout)
        ends = time.time() + transfer.since + patience - self._loop.time()
        return Wait(f"{transfer.url} to answer", ends)


class _BlockDownload:
    """A block while its tiles are asked."""

    def __init__(
        self,
        request: BlockRequest,
        layer: Layer,
        heads: HeadSupport,
        terms: Terms,
        done: asyncio.Future[None],
    ) -> None:
        self.request, self.heads, self.terms, self.done = request, heads, terms, done
        self.host, self.attempt, self.urgency = layer.host, request.attempt, -request.priority
        self.urls = layer.addresses.urls_of(request.block)
        """The addresses of the tiles, by bit."""
        self.url = next(iter(self.urls.values()))
        """The address of one of its tiles."""
        self.waiting = deque(self.urls)
        """The bits of the tiles that have not started, or start again."""
        self.timer: asyncio.TimerHandle | None = None
        """Cuts the block short. None before its first tile has started."""
        self.under_way = self.following = 0
        """The tiles that have been asked and not answered, and those that are being redirected."""
        self.answers: dict[int, Answer | Exception] = {}
        """By bit."""
        self.requests, self.seconds = 0, 0.0
        """The tiles that were asked, and how long their answers took together."""
        self.size = 0
        """The bytes of all bodies."""
        self.gets = WHOLE if request.method == "GET" else request.gets

    def cut(self) -> None:
        """Lets no further tile start, unless HEAD is refused for one that has. The block ends when those on
        the way are answered."""
        self.waiting.clear()
        self.end_if_complete()

    def end_if_complete(self) -> None:
        if not (self.waiting or self.under_way or self.following or self.done.done()):
            self.done.set_result(None)

    def response(self) -> BlockResponse:
        request, answers, body = self.request, self.answers, b""
        if self.size:
            body = b"".join(one.body for one in answers.values() if isinstance(one, Answer))
        gets = self.gets & mask_of(answers)
        return BlockResponse(request.url, request=request, body=body, answers=answers, gets=gets)
