"""Connections to the sites of one crawl: libcurl's, driven by the event loop."""

from __future__ import annotations

import asyncio

import pycurl


class Connections:
    """Makes libcurl's transfers in one asyncio event loop. Connections are kept open and used again.

    Over HTTP/1.1 nothing is pipelined: a connection takes one transfer at a time. Over HTTP/2, which only TLS
    agrees on, one connection may take several at once. How many there are is for the caller to limit.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[int, int] = {}
        """What libcurl waits for, by socket."""
        self._waiting: dict[pycurl.Curl, asyncio.Future[None]] = {}

    async def transfer(self, curl: pycurl.Curl) -> None:
        """Returns when the transfer is complete. Raises pycurl.error with libcurl's number and words."""
        self._multi.add_handle(curl)
        done = self._waiting[curl] = self._loop.create_future()
        try:
            await done
        finally:
            if self._waiting.pop(curl, None) is not None:
                # The caller was cancelled, and the transfer ends with it.
                self._multi.remove_handle(curl)

    @property
    def oldest(self) -> pycurl.Curl | None:
        """The transfer that began first of those that are under way."""
        return next(iter(self._waiting), None)

    def close(self) -> None:
        """Closes all connections. Nothing may be under way."""
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()
        for socket in list(self._watched):
            self._watch(pycurl.POLL_REMOVE, socket, self._multi, None)

    def _watch(self, what: int, socket: int, _multi: object, _data: object) -> None:
        wanted = 0 if what == pycurl.POLL_REMOVE else what
        changed = self._watched.pop(socket, 0) ^ wanted
        if wanted:
            self._watched[socket] = wanted
        loop = self._loop
        if changed & pycurl.POLL_IN:
            if wanted & pycurl.POLL_IN:
                loop.add_reader(socket, self._act, socket, pycurl.CSELECT_IN)
            else:
                loop.remove_reader(socket)
        if changed & pycurl.POLL_OUT:
            if wanted & pycurl.POLL_OUT:
                loop.add_writer(socket, self._act, socket, pycurl.CSELECT_OUT)
            else:
                loop.remove_writer(socket)

    def _set_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0:
            # Never at once: libcurl must not be called from here.
            self._timer = self._loop.call_later(milliseconds / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, socket: int, events: int) -> None:
        self._multi.socket_action(socket, events)
        left = True
        while left:
            left, complete, failed = self._multi.info_read()
            for curl in complete:
                self._end(curl, None)
            for curl, number, words in failed:
                self._end(curl, pycurl.error(number, words))

    def _end(self, curl: pycurl.Curl, error: pycurl.error | None) -> None:
        self._multi.remove_handle(curl)
        done = self._waiting.pop(curl)
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
