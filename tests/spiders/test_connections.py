"""The connections that all crawls of a process share."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing

import pytest
from scrapy.exceptions import DownloadFailedError

from tileharvest.spiders.connections import Connections, connections
from tileharvest.spiders.transfer import Reply, Terms, Transfer

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
TERMS = Terms([], timeout=60.0, most_bytes=0, silence=60.0, least=0)


class CountedSites:
    """Sites that keep each connection until its other end closes it."""

    def __init__(self) -> None:
        self.open = self.most_open = 0
        self._serving: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.current_task())
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            # All that is asked at once is under way before the first is answered.
            await asyncio.sleep(0)
            writer.write(ANSWER)
        self.open -= 1
        writer.close()

    @asynccontextmanager
    async def site(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield address_of(server)
            await asyncio.gather(*filter(None, self._serving))


async def ask(shared: Connections, url: str, terms: Terms = TERMS) -> Reply:
    replied: asyncio.Future[Reply | Exception] = asyncio.get_running_loop().create_future()

    def answered(_: Transfer, reply: Reply | Exception) -> None:
        if not replied.done():
            replied.set_result(reply)

    transfer = Transfer("HEAD", (), None)
    transfer.prepare(url, terms)
    transfer.answered = answered
    try:
        shared.begin(transfer)
        reply = await replied
    finally:
        shared.stop(transfer)
    if isinstance(reply, Exception):
        raise reply
    return reply


@asynccontextmanager
async def silent_site(begun: asyncio.Event) -> AsyncIterator[str]:
    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(be_silent, "127.0.0.1", 0) as server:
        yield address_of(server)


def address_of(server: asyncio.Server) -> str:
    return "http://{}:{}/".format(*server.sockets[0].getsockname())


async def test_no_more_connections_are_open_than_they_may_be_those_that_are_idle_included() -> None:
    sites = CountedSites()
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(sites.site()) for _ in range(5)]
        shared = Connections(2)
        try:
            asked = [ask(shared, url) for url in urls * 3]
            assert {reply.status for reply in await asyncio.gather(*asked)} == {204}
        finally:
            shared.close()
        # A site hears of the end of a connection only later.
        assert sites.most_open <= 3


async def test_a_connection_that_its_site_closes_between_two_requests_is_watched_no_more() -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await has_answer.wait()
        writer.close()
        await writer.wait_closed()
        is_closed.set()

    has_answer, is_closed = asyncio.Event(), asyncio.Event()
    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        shared = Connections(1)
        assert (await ask(shared, address_of(server))).status == 204
        has_answer.set()
        await is_closed.wait()
        # Whatever is left to read would wake the event loop without an end.
        for _ in range(3):
            await asyncio.sleep(0)
        assert shared._sockets.poll(0) == []
        shared.close()


async def test_a_transfer_that_is_under_way_when_they_are_closed_ends() -> None:
    begun = asyncio.Event()
    async with silent_site(begun) as url:
        shared = connections()
        asking = asyncio.ensure_future(ask(shared, url))
        await begun.wait()
        shared.close()
        with pytest.raises(DownloadFailedError):
            await asking
        with pytest.raises(DownloadFailedError):
            await asyncio.wait_for(ask(shared, url), 60)


async def test_the_silence_of_several_is_counted_before_the_time_for_their_connections_is_up() -> None:
    """libcurl's own clock cannot be given; a minute stands for never."""
    async with silent_site(asyncio.Event()) as url:
        shared = Connections(3)
        asked = [ask(shared, url, TERMS._replace(silence=1.0, least=1)) for _ in range(3)]
        failures = await asyncio.gather(*asked, return_exceptions=True)
        assert ["bytes a second" in str(failure) for failure in failures] == [True] * 3
        shared.close()


async def test_crawls_of_one_process_share_them_until_the_last_has_closed_them() -> None:
    async with CountedSites().site() as url:
        one, two = connections(), connections()
        assert one is two
        one.close()
        assert (await ask(two, url)).status == 204
        two.close()
        with closing(connections()) as three:
            assert three is not one
        connections().close()
