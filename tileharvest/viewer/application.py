"""The application: which address is answered by what, and in which thread."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from tileharvest.errors import HistoryError, StoreError
from tileharvest.pictures.composer import ComposerStoppedError
from tileharvest.pictures.pixels import picture_of
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import is_image_name
from tileharvest.viewer import api
from tileharvest.viewer.events import feed, list_events
from tileharvest.viewer.page_files import INDEX
from tileharvest.viewer.picture_replies import composed_picture, ground_picture, pixel_story
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    FOR_EVER,
    JSON,
    NEVER,
    RefusedError,
    compressible,
    error,
    framed,
    json,
    knows,
    quoted,
    reply,
    tagged,
    unknown,
)
from tileharvest.viewer.shared_places import PARAMETERS, place_picture, shared_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileharvest.viewer.api import Question
    from tileharvest.viewer.page_files import FileAnswer
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

    Answer = Callable[[web.Request], web.StreamResponse]
    Kind = Callable[[bytes, web.BaseRequest], web.Response]

_log = logging.getLogger(__name__)

_THREADS: Final = {"quick": 2, "long": 1, "images": 4, "composing": 2}
"""The threads for each kind of work. Of two for quick questions one is left while the other answers a slow
one, such as heat over a large area. A long question takes up to seconds over a million versions. Disks answer
several threads faster than one; in the event loop one slow disk would hold up every reply."""

_MAPS: Final = "/api/v1/maps"
_MAP: Final = "/api/v1/maps/{map}"
_KINDS: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_HTML: Final = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": AFTER_ASKING}
_LINES: Final = {"Content-Type": "application/x-ndjson", "Cache-Control": AFTER_ASKING}
_ATOM: Final = {"Content-Type": "application/atom+xml", "Cache-Control": AFTER_ASKING}
_PICTURE: Final = {"Content-Type": "image/jpeg", "Cache-Control": AFTER_ASKING}
"""The headers of a picture of the past, which an import may change."""


class Application:
    """Answers every request, whatever it asks and whatever fails. Used from one event loop.

    Nothing that may wait for a disk runs in the event loop. Quick questions, long questions, the reading of
    images, and the composing of pictures have threads of their own, so that no kind of work waits for
    another.
    """

    def __init__(self, served: ServedMaps, page: Mapping[str, FileAnswer], ancestors: Sequence[str]) -> None:
        """`ancestors` are the sites that may show the page in a frame."""
        self._served = served
        self._page = page
        self._ancestors = ancestors
        self._threads = {kind: ThreadPoolExecutor(number, kind) for kind, number in _THREADS.items()}

    def routes(self) -> list[web.RouteDef]:
        """Returns what answers each address."""
        quick, long, images, composing = self._threads.values()
        answers: list[tuple[str, ThreadPoolExecutor, Answer]] = [
            ("/tiles/{image}", images, self._image),
            ("/pictures/{image}", images, self._image),
            ("/s/{map}/{days}/{place}.jpg", composing, self._asked(place_picture, self._unfolded)),
            ("/s/{names:.*}", quick, self._shared_page),
            (_MAPS, quick, self._asked(api.list_maps)),
            (_MAP, quick, self._asked(api.outline)),
            (f"{_MAP}/view", quick, self._asked(api.view)),
            (f"{_MAP}/changes", quick, self._asked(api.count_changes)),
            (f"{_MAP}/heat", quick, self._asked(api.heat_map)),
            (f"{_MAP}/tiles/{{tile}}", quick, self._asked(api.tile_story)),
            (f"{_MAP}/harvests", quick, self._asked(api.list_harvests)),
            (f"{_MAP}/areas", quick, self._asked(api.list_areas)),
            (f"{_MAP}/areas/{{area}}", quick, self._asked(api.area_story)),
            (f"{_MAP}/places", long, self._asked(api.most_changed)),
            (f"{_MAP}/events", long, self._asked(list_events)),
            (f"{_MAP}/events.atom", long, self._feed),
            (f"{_MAP}/pixels", long, self._asked(pixel_story, _lines)),
            (f"{_MAP}/composed/{{tile}}/{{picture}}", composing, partial(composed_picture, self._served)),
            (f"{_MAP}/before/{{day}}/{{picture}}", composing, self._asked(ground_picture, _picture)),
            (f"{_MAP}/ground/{{picture}}", composing, self._asked(ground_picture, _picture)),
        ]
        return [
            web.get("/", self._page_file),
            web.get("/page/{name:.+}", self._page_file),
            web.get("/healthz", _alive),
            *(web.get(path, _in(threads, answer)) for path, threads, answer in answers),
        ]

    @web.middleware
    async def refuse(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """Answers what cannot be answered otherwise. Raises nothing but CancelledError."""
        try:
            if request.method not in {"GET", "HEAD"}:
                message = f"{quoted(request.method)} is not possible here, only GET, HEAD"
                return error(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": "GET, HEAD"})
            response: web.StreamResponse = await handler(request)
        except RefusedError as refused:
            return error(refused.status, str(refused))
        except web.HTTPNotFound:
            return error(HTTPStatus.NOT_FOUND, f"there is nothing at {quoted(request.rel_url.raw_path)}")
        except HistoryError as failed:
            _log.error("%s", failed)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, str(failed))
        except ComposerStoppedError:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "the viewer is being stopped")
        except Exception:  # noqa: BLE001 - a bug must not take the server's other answers with it
            _log.exception("%s %s failed", request.method, request.rel_url)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, "the viewer failed; its log says why")
        return response

    def close(self) -> None:
        """Lets no more work begin. Work that is under way in threads comes to its end."""
        self._served.composer.stop()
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def _page_file(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", INDEX)
        if name not in self._page:
            raise unknown(f"the page has no file {quoted(name)}")
        is_framed = name == INDEX and "embed" in request.query
        return framed(self._page[name](request), self._ancestors if is_framed else ())

    def _image(self, request: web.Request) -> web.Response:
        """Answers with an image, or with the picture that it shows."""
        name = request.match_info["image"]
        if not is_image_name(name):
            raise unknown(f"{quoted(name)} is not an image's name, which is its sha1 and extension")
        sha1, _, extension = name.partition(".")
        headers = {"Content-Type": _KINDS[extension], "Cache-Control": FOR_EVER, "ETag": f'"{sha1}"'}
        # The name says what the content is, so nothing is read for a client that has the image.
        if knows(request, headers["ETag"]):
            return reply(b"", headers, HTTPStatus.NOT_MODIFIED)
        try:
            body = self._served.store.named(name)
        except MissingImageError:
            raise unknown(f"the store has no image {name}") from None
        except StoreError as failed:
            _log.error("%s", failed)
            message = f"image {name} is damaged or cannot be read"
            raise RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, message) from None
        return reply(picture_of(body) if request.path.startswith("/pictures/") else body, headers)

    def _asked(self, question: Question, kind: Kind = json) -> Answer:
        """Returns what answers a question with a reply of this kind."""

        def answer(request: web.Request) -> web.Response:
            made = question(self._served, tuple(request.match_info.values()), _query(request))
            return kind(made if isinstance(made, bytes) else msgspec.json.encode(made), request)

        return answer

    def _feed(self, request: web.Request) -> web.Response:
        name = request.match_info["map"]
        # A feed reader needs whole addresses, so the answer depends on the viewer's address.
        body = feed(self._served, name, self._address(name, request), _query(request))
        return compressible(body, _ATOM, request)

    def _shared_page(self, request: web.Request) -> web.Response:
        names = request.match_info["names"].split("/")
        # Social networks add parameters to the links that people post.
        known = [(name, value) for name, value in _query(request) if name in PARAMETERS]
        place = shared_place(self._served, names, known)
        body = place.html(self._address(place.outline.name, request)).encode()
        return framed(compressible(body, _HTML, request), self._ancestors if place.is_embedded else ())

    def _unfolded(self, body: bytes, request: web.BaseRequest) -> web.Response:
        response = _picture(body, request)
        if self._ancestors:
            # Sites that may show the page in a frame may show its picture, too.
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    def _address(self, map_name: str, request: web.Request) -> str:
        """Returns the viewer's address for other people, with a slash at its end. Behind another server only
        the map's owner knows it, and may have written it into maps.toml."""
        described = self._served.described(map_name)
        viewer = (described.viewer if described else "") or f"{request.url.origin()}/"
        # People copy the address of a place on the page, which stands behind `#`.
        return f"{viewer.split('#', 1)[0].rstrip('/')}/"


async def _alive(request: web.Request) -> web.Response:
    return reply(b'{"ok":true}', {"Content-Type": JSON, "Cache-Control": NEVER})


def _query(request: web.Request) -> Query:
    return list(request.query.items())


def _lines(body: bytes, request: web.BaseRequest) -> web.Response:
    return compressible(body, _LINES, request)


def _picture(body: bytes, request: web.BaseRequest) -> web.Response:
    if not body:
        # A browser would report status 404 as an error, and it is none.
        return reply(b"", {"Cache-Control": AFTER_ASKING}, HTTPStatus.NO_CONTENT)
    return tagged(body, _PICTURE, request)


def _in(threads: ThreadPoolExecutor, answer: Answer) -> Any:
    """Returns a handler whose answer is made in one of these threads, or an empty one if the client has hung
    up by then. It may have scrolled on."""

    async def handle(request: web.Request) -> web.StreamResponse:
        def made() -> web.StreamResponse:
            return reply(b"", {}) if request.transport is None else answer(request)

        return await asyncio.get_running_loop().run_in_executor(threads, made)

    return handle
