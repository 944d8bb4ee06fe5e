"""The application: which address is answered by what, and what all replies have in common."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack
from urllib.parse import unquote

from aiohttp import web

from tileharvest.errors import HistoryError, StoreError
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import is_image_name
from tileharvest.viewer import api
from tileharvest.viewer.composed_pictures import composed_picture
from tileharvest.viewer.page_files import INDEX
from tileharvest.viewer.replies import (
    FOR_EVER,
    NEVER,
    Caller,
    RefusedError,
    Reply,
    error,
    json,
    quoted,
    takes_gzip,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileharvest.pictures.composer import Composer
    from tileharvest.store.port import TileStore
    from tileharvest.viewer.page_files import PageFile
    from tileharvest.viewer.served_maps import ServedMaps

    Question = Callable[[ServedMaps, Sequence[str], api.Query], Any]

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

METHODS: Final = ("GET", "HEAD")

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    # aiohttp would tell its version and Python's.
    "Server": "TileHarvest",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every reply: the page loads nothing from elsewhere, nobody frames it, and nothing sent is
taken for a script."""

_QUESTION_THREADS: Final = 2
"""Two, so that a slow question, such as heat over a large area, leaves one for the quick ones."""
_IMAGE_THREADS: Final = 4
"""On one core they read, check and answer 4,000 to 8,000 images of 60 kB a second from memory. To read them
in the event loop gives a fifth more, but one slow disk would then hold up every reply. Disks like several."""
_COMPOSING_THREADS: Final = 2

_KINDS: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
FAILED: Final = "the viewer failed; its log says why"
_NO_CALLER: Final = Caller()


class Application:
    """Answers every request, whatever it is and whatever fails. Used from one event loop.

    Nothing that may wait for a disk runs in the event loop. Questions to the history, reading images and
    composing pictures have threads of their own, so that none of them has to wait for another kind.
    """

    def __init__(
        self,
        served: ServedMaps,
        store: TileStore,
        composer: Composer,
        page: Mapping[str, PageFile],
    ) -> None:
        self._served = served
        self._store = store
        self._composer = composer
        self._page = page
        self._questions = ThreadPoolExecutor(_QUESTION_THREADS, "history")
        self._images = ThreadPoolExecutor(_IMAGE_THREADS, "images")
        self._composing = ThreadPoolExecutor(_COMPOSING_THREADS, "composing")

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Raises nothing but CancelledError."""
        try:
            answer = await self._answer(request)
        except RefusedError as refused:
            answer = error(refused.status, str(refused))
        except HistoryError as failed:
            _log.error("%s", failed)
            answer = error(HTTPStatus.INTERNAL_SERVER_ERROR, str(failed))
        except Exception:  # noqa: BLE001 - a bug must not take the server's other answers with it
            _log.exception("%s %s failed", request.method, request.rel_url)
            answer = error(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED)
        return as_response(answer)

    def close(self) -> None:
        """Begins nothing more. What is under way in threads comes to its end."""
        self._composer.stop()
        for threads in (self._questions, self._images, self._composing):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, request: web.BaseRequest) -> Reply:
        if request.method not in METHODS:
            allowed = ", ".join(METHODS)
            message = f"{quoted(request.method)} is not possible here, only {allowed}"
            return error(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": allowed})
        caller = _caller(request)
        match [unquote(part) for part in request.rel_url.raw_path.split("/")[1:]]:
            case ["tiles", name]:
                return await self._image(name, caller)
            case [""]:
                return self._page_file(INDEX, caller)
            case ["page", *names]:
                return self._page_file("/".join(names), caller)
            case ["healthz"]:
                return Reply(b'{"ok":true}', {"Content-Type": "application/json", "Cache-Control": NEVER})
            case ["api", "v1", "maps", name, "composed", tile, picture]:
                return await self._picture((name, tile, picture), request, caller)
            case ["api", "v1", "maps", *names]:
                return await self._asked(names, request, caller)
        raise unknown(f"there is nothing at {quoted(request.rel_url.raw_path)}")

    def _page_file(self, name: str, caller: Caller) -> Reply:
        if name not in self._page:
            raise unknown(f"the page has no file {quoted(name)}")
        return self._page[name].answer(caller)

    async def _image(self, name: str, caller: Caller) -> Reply:
        if not is_image_name(name):
            raise unknown(f"{quoted(name)} is no image: write its sha1 and its extension, as in a view")
        sha1, _, extension = name.partition(".")
        tag = f'"{sha1}"'
        headers = {"Content-Type": _KINDS[extension], "Cache-Control": FOR_EVER, "ETag": tag}
        # The name tells the content: for a caller that has it no disk is asked.
        if caller.names(tag):
            return Reply(b"", headers, HTTPStatus.NOT_MODIFIED)
        try:
            body = await _in_thread(self._images, self._store.named, name)
        except MissingImageError:
            raise unknown(f"the store has no image {name}") from None
        except StoreError as failed:
            _log.error("%s", failed)
            raise RefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"image {name} is damaged or cannot be read"
            ) from None
        if caller.knows(tag):
            return Reply(b"", headers, HTTPStatus.NOT_MODIFIED)
        return Reply(body, headers)

    async def _picture(self, names: Sequence[str], request: web.BaseRequest, caller: Caller) -> Reply:
        query = list(request.query.items())

        def answer() -> Reply:
            # A picture may take long, and a caller that has scrolled on meanwhile has hung up.
            if request.transport is None:
                return Reply(b"")
            return composed_picture(self._served, self._composer, names, query, caller)

        return await _in_thread(self._composing, answer)

    async def _asked(self, parts: Sequence[str], request: web.BaseRequest, caller: Caller) -> Reply:
        question, names = _question(parts)
        query = list(request.query.items())
        return await _in_thread(self._questions, lambda: json(question(self._served, names, query), caller))


def as_response(answer: Reply) -> web.Response:
    """Returns the reply as HTTP, with the headers that all replies have."""
    return web.Response(body=answer.body, status=answer.status, headers={**HEADERS, **answer.headers})


def _question(parts: Sequence[str]) -> tuple[Question, Sequence[str]]:
    match parts:
        case []:
            return api.list_maps, ()
        case [name]:
            return api.outline, (name,)
        case [name, "harvests"]:
            return api.list_harvests, (name,)
        case [name, "tiles", tile]:
            return api.tile_story, (name, tile)
        case [name, question] if question in api.OF_LAYERS:
            return api.OF_LAYERS[question], (name,)
    raise unknown("of a map can be asked: composed, harvests, tiles, " + ", ".join(api.OF_LAYERS))


def _caller(request: web.BaseRequest) -> Caller:
    known = request.headers.getall("If-None-Match", ())
    encodings = request.headers.getall("Accept-Encoding", ())
    if not known and not encodings:
        return _NO_CALLER
    return Caller(",".join(known), takes_gzip(",".join(encodings)))


async def _in_thread(
    threads: ThreadPoolExecutor, call: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments
) -> _Result:
    return await asyncio.get_running_loop().run_in_executor(threads, call, *arguments)
