"""Connections to the sites of all crawls: libcurl's, driven by the event loop."""

from __future__ import annotations

import asyncio
import resource
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pycurl

if TYPE_CHECKING:
    from tileharvest.spiders.transfer import Transfer

_ENOUGH: Final = 4096
"""The most connections of a process. It uses up its core long before it has that many."""

_LOOK: Final = 1.0
"""Seconds after which libcurl is made to look at each transfer. It counts the seconds of a silent transfer
only when it is called, and if several are silent its own first timer is for their connections."""

_REMOVE: Final[int] = pycurl.POLL_REMOVE
_IN: Final[int] = pycurl.POLL_IN
_EVENTS: Final = {
    _IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
"""By libcurl's number for what a socket is watched for: Linux' number for it."""

_READY: Final = {select.EPOLLIN: pycurl.CSELECT_IN, select.EPOLLOUT: pycurl.CSELECT_OUT}
"""By what Linux says of a socket: libcurl's number for it."""
_READS_AND_WRITES: Final = pycurl.CSELECT_IN | pycurl.CSELECT_OUT

_ALL: Final[dict[asyncio.AbstractEventLoop, Connections]] = {}
"""The open connections, by event loop."""


def connections() -> Connections:
    """Returns the connections of the running event loop. Its crawls share them, and each closes them."""
    loop = asyncio.get_running_loop()
    if loop not in _ALL:
        _ALL[loop] = Connections(most_connections())
    _ALL[loop].users += 1
    return _ALL[loop]


def most_connections() -> int:
    """Returns how many connections a process has at most: for a quarter of the files that it may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if files == resource.RLIM_INFINITY else max(1, min(files // 4, _ENOUGH))


class Connections:
    """Makes libcurl's transfers in one asyncio event loop. Connections are kept open and used again.

    Over HTTP/1.1 nothing is pipelined: a connection takes one transfer at a time. Over HTTP/2, which only TLS
    agrees on, one connection may take several at once. How many a map has is for the caller to limit. What
    goes beyond the connections of the process waits within libcurl.
    """

    def __init__(self, most: int) -> None:
        """`most` is the most connections that are open. Some of them wait to be used again."""
        self.users = 0
        """How many crawls have still to close the connections."""
        self._loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, most)
        # Unless it is told, libcurl keeps four for each transfer that is just under way, which are few where
        # hundreds of sites are asked slowly.
        self._multi.setopt(pycurl.M_MAXCONNECTS, most)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        # libcurl waits anew for each answer. The event loop would make an object each time, and take several
        # calls; so it only watches this, which watches the sockets. That takes a fifth of a request away.
        self._sockets = select.epoll()
        self._loop.add_reader(self._sockets.fileno(), self._act)
        self._watched: set[int] = set()
        """The sockets of connections that make a request."""
        self._known: dict[int, int] = {}
        """For what Linux watches each socket. A socket that has been closed since is no longer watched."""
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._under_way: dict[pycurl.Curl, Transfer] = {}

    def begin(self, *transfers: Transfer) -> None:
        """Begins transfers. Each hears once that it has ended, and not before this returns."""
        for transfer in transfers:
            try:
                self._multi.add_handle(transfer.curl)
            except pycurl.error as error:
                # The connections are closed.
                self._loop.call_soon(transfer.ended, error)
            else:
                self._under_way[transfer.curl] = transfer
        if self._under_way:
            # Never at once: libcurl must not be called from here.
            self._soon = self._soon or self._loop.call_soon(self._run_timers)
            self._next_look = self._next_look or self._loop.call_later(_LOOK, self._look)

    def stop(self, transfer: Transfer) -> None:
        """Ends a transfer, unless it has ended."""
        if transfer.curl in self._under_way:
            self._end(transfer.curl, asyncio.CancelledError())

    def close(self) -> None:
        """Closes all connections when the last crawl that was given them has called this. Each calls it once.

        Transfers that are still under way then are stopped: Scrapy closes its handlers at a signal without
        waiting for what spiders ask for by themselves, and a handle that is freed after its connections ends
        the process by a segmentation fault."""
        self.users -= 1
        if self.users > 0:
            return
        for curl in list(self._under_way):
            self._end(curl, asyncio.CancelledError())
        _ALL.pop(self._loop, None)
        for handle in (self._soon, self._timer, self._next_look):
            if handle is not None:
                handle.cancel()
        self._multi.close()
        self._loop.remove_reader(self._sockets.fileno())
        self._sockets.close()

    def _watch(self, what: int, socket: int, _multi: object, _data: object) -> None:
        """Watches a socket for libcurl."""
        if what == _REMOVE:
            # Linux goes on watching it, as its connection mostly makes the next request at once.
            self._watched.discard(socket)
            return
        self._watched.add(socket)
        # A new socket that has got the number of a closed one is first watched for being connected.
        if self._known.get(socket) == what == _IN:
            return
        self._known[socket] = what
        try:
            self._sockets.modify(socket, _EVENTS[what])
        except FileNotFoundError:
            self._sockets.register(socket, _EVENTS[what])

    def _set_timer(self) -> None:
        """Sets the timer that libcurl wants now. A timer that comes too early does no harm.

        libcurl could say by itself when it wants another timer. It does so twice for each request, and each
        time it would call a function of ours."""
        milliseconds = self._multi.timeout()
        if milliseconds == 0:
            self._soon = self._soon or self._loop.call_soon(self._run_timers)
        elif milliseconds > 0:
            due = self._loop.time() + milliseconds / 1000
            if self._timer is not None and self._timer.when() > due:
                self._timer.cancel()
                self._timer = None
            self._timer = self._timer or self._loop.call_at(due, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        self._run_timers()

    def _run_timers(self) -> None:
        self._soon = None
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._end_complete()

    def _look(self) -> None:
        self._next_look = None
        # A list, as what is called changes the set. 0: whether anything has come, libcurl looks for itself.
        for socket in list(self._watched):
            self._multi.socket_action(socket, 0)
        self._end_complete()
        # A transfer that has ended may have let another one begin.
        if self._under_way and self._next_look is None:
            self._next_look = self._loop.call_later(_LOOK, self._look)

    def _act(self) -> None:
        for socket, events in self._sockets.poll(0):
            if socket in self._watched:
                # An error of the socket or its end is for libcurl to find, whatever it waits for.
                self._multi.socket_action(socket, _READY.get(events, _READS_AND_WRITES))
            else:
                # The site has closed a connection that makes no request.
                self._known.pop(socket, None)
                with suppress(OSError):
                    self._sockets.unregister(socket)
        self._end_complete()

    def _end_complete(self) -> None:
        left = True
        while left:
            left, complete, failed = self._multi.info_read()
            for curl in complete:
                self._multi.remove_handle(curl)
                self._under_way.pop(curl).ended(None)
            for curl, number, words in failed:
                self._end(curl, pycurl.error(number, words))
        self._set_timer()

    def _end(self, curl: pycurl.Curl, error: BaseException | None) -> None:
        self._multi.remove_handle(curl)
        self._under_way.pop(curl).ended(error)
