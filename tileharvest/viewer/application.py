"""The application: which address is answered by what, and in which thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from aiohttp import web

from tileharvest.errors import HistoryError, StoreError
from tileharvest.pictures.composer import ComposerStoppedError
from tileharvest.pictures.pixels import picture_of
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import is_image_name
from tileharvest.viewer import api
from tileharvest.viewer.events import list_events
from tileharvest.viewer.feeds import FEEDS, feed
from tileharvest.viewer.page_files import INDEX
from tileharvest.viewer.parameters import picture_days
from tileharvest.viewer.picture_replies import composed_picture, ground_picture, pixel_story
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    FOR_EVER,
    HTML,
    JSON,
    NEVER,
    RefusedError,
    compressible,
    error,
    framed,
    is_named,
    json,
    knows,
    not_modified,
    quoted,
    reply,
    tag_of,
    tagged,
    unknown,
)
from tileharvest.viewer.shared_places import (
    known_parameters,
    oembed,
    place_picture,
    shared_name,
    shared_place,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from tileharvest.pictures.composer import Composer
    from tileharvest.store.cache import DiskCache
    from tileharvest.store.port import TileStore
    from tileharvest.viewer.api import Question
    from tileharvest.viewer.page_files import PageFile
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

    Answer = Callable[[web.Request], web.StreamResponse]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

METHODS: Final = ("GET", "HEAD")

_QUESTION_THREADS: Final = 2
"""There are two, so that one is left for quick questions while the other answers a slow one, such as heat
over a large area."""
_IMAGE_THREADS: Final = 4
"""On one core these threads read, check and send 4,000 to 8,000 images of 60 kB a second from memory. Reading
in the event loop would be a fifth faster, but one slow disk would then hold up every reply. Disks answer
several threads faster than one."""
_COMPOSING_THREADS: Final = 2
_COMPOSING_WAITING: Final = 128
"""A browser asks for six pictures at a time, so twenty people may look at composed levels at once. With two
cores the last of them comes after two seconds, or after a minute if all are of many levels."""
_LONG_THREADS: Final = 1
_LONG_WAITING: Final = 16
"""Each of these questions takes up to seconds over a million versions, so the last one waits for half a
minute."""
RETRY_AFTER: Final = 5
"""Seconds after which a client may ask again that was refused because too many waited."""
_FORM: Final = "answer 2"
"""The form of the answers, a part of each name in the cache. Change the number with the form: the cache
outlives the program."""

_MAPS: Final = "/api/v1/maps"
_MAP: Final = "/api/v1/maps/{map}"
_PLACE: Final = "/s/{map}/{days}/{place}"
_KINDS: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_LINES: Final = {"Content-Type": "application/x-ndjson", "Cache-Control": AFTER_ASKING}
_PICTURE: Final = {"Content-Type": "image/jpeg", "Cache-Control": AFTER_ASKING}
"""The headers of a picture of the past, which an import may change."""
FAILED: Final = "the viewer failed; its log says why"


class WorkQueue:
    """Runs calls in threads, in the order in which they came, and refuses a new call if too many wait.

    Without a bound the last of many visitors would wait for minutes for pictures that nobody looks at any
    more. May be used from one event loop.
    """

    def __init__(self, name: str, threads: int, most_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threading.Semaphore(threads + most_waiting)

    async def run(self, call: Callable[[], _Result]) -> _Result:
        """Returns what the call returns, and raises what it raises.

        Raises RefusedError, with status 503 and Retry-After, if too many calls wait.
        """
        if not self._free.acquire(blocking=False):
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"too many ask for such work at once: ask again in {RETRY_AFTER} seconds",
                {"Retry-After": str(RETRY_AFTER)},
            )
        future: Future[_Result] = self._threads.submit(call)
        # The place is free when the thread ends, not this coroutine: a call goes on when its client has gone.
        future.add_done_callback(lambda _: self._free.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Lets no waiting call begin. Calls under way come to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Application:
    """Answers every request, whatever it asks and whatever fails. Used from one event loop.

    Nothing that may wait for a disk runs in the event loop. Quick questions, long questions, the reading of
    images, and the composing of pictures have threads of their own, so that no kind of work waits for
    another. Work that takes long has a queue with a bound.
    """

    def __init__(
        self,
        served: ServedMaps,
        store: TileStore,
        composer: Composer,
        page: Mapping[str, PageFile],
        cache: DiskCache,
        ancestors: tuple[str, ...] = (),
    ) -> None:
        """`cache` keeps the answers to long questions about harvests that have ended. `ancestors` are the
        sites that may show the page in a frame."""
        self._served = served
        self._store = store
        self._composer = composer
        self._page = page
        self._cache = cache
        self._ancestors = ancestors
        self._questions = ThreadPoolExecutor(_QUESTION_THREADS, "history")
        self._images = ThreadPoolExecutor(_IMAGE_THREADS, "images")
        self._long_questions = WorkQueue("long-questions", _LONG_THREADS, _LONG_WAITING)
        self._composing = WorkQueue("composing", _COMPOSING_THREADS, _COMPOSING_WAITING)

    def routes(self) -> list[web.RouteDef]:
        """Returns what answers each address."""
        quick, queued = self._quick, _queued
        return [
            web.get("/", self._index),
            web.get("/page/{name:.+}", self._page_file),
            web.get("/healthz", _alive),
            web.get("/tiles/{image}", self._image),
            web.get("/pictures/{image}", self._image),
            web.get(f"{_PLACE}.jpg", queued(self._composing, self._shared_picture)),
            web.get("/s/{names:.*}", quick(self._shared_page)),
            web.get("/oembed", quick(self._oembed)),
            web.get(_MAPS, quick(self._asked(api.list_maps))),
            web.get(_MAP, quick(self._asked(api.outline))),
            web.get(f"{_MAP}/view", quick(self._asked(api.view))),
            web.get(f"{_MAP}/changes", quick(self._asked(api.count_changes))),
            web.get(f"{_MAP}/heat", quick(self._asked(api.heat_map))),
            web.get(f"{_MAP}/tiles/{{tile}}", quick(self._asked(api.tile_story))),
            web.get(f"{_MAP}/harvests", quick(self._asked(api.list_harvests))),
            web.get(f"{_MAP}/areas", quick(self._asked(api.list_areas))),
            web.get(f"{_MAP}/areas/{{area}}", quick(self._asked(api.area_story))),
            web.get(f"{_MAP}/places", queued(self._long_questions, self._remembering(api.most_changed))),
            web.get(f"{_MAP}/events", queued(self._long_questions, self._remembering(list_events))),
            *(web.get(f"{_MAP}/{form}", queued(self._long_questions, self._feed)) for form in FEEDS),
            web.get(f"{_MAP}/pixels", queued(self._long_questions, self._pixels)),
            web.get(f"{_MAP}/composed/{{tile}}/{{picture}}", queued(self._composing, self._composed)),
            web.get(f"{_MAP}/before/{{day}}/{{picture}}", queued(self._composing, self._ground_picture)),
            web.get(f"{_MAP}/ground/{{picture}}", queued(self._composing, self._ground_picture)),
        ]

    @web.middleware
    async def refuse(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        """Answers what cannot be answered otherwise. Raises nothing but CancelledError."""
        try:
            if request.method not in METHODS:
                allowed = ", ".join(METHODS)
                message = f"{quoted(request.method)} is not possible here, only {allowed}"
                return error(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": allowed})
            response: web.StreamResponse = await handler(request)
        except RefusedError as refused:
            return error(refused.status, str(refused), refused.headers)
        except web.HTTPNotFound:
            return error(HTTPStatus.NOT_FOUND, self._nothing_at(request.rel_url.raw_path))
        except HistoryError as failed:
            _log.error("%s", failed)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, str(failed))
        except ComposerStoppedError:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "the viewer is being stopped")
        except Exception:  # noqa: BLE001 - a bug must not take the server's other answers with it
            _log.exception("%s %s failed", request.method, request.rel_url)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED)
        return response

    def close(self) -> None:
        """Lets no more work begin. Work that is under way in threads comes to its end."""
        self._composer.stop()
        for threads in (self._questions, self._images):
            threads.shutdown(wait=False, cancel_futures=True)
        for queue in (self._long_questions, self._composing):
            queue.close()

    def _nothing_at(self, path: str) -> str:
        if not path.startswith(f"{_MAPS}/"):
            return f"there is nothing at {quoted(path)}"
        forms = [route.path.removeprefix(f"{_MAP}/") for route in self.routes()]
        there = ", ".join(form for form in forms if not form.startswith("/"))
        asked = "/".join(path.removeprefix(f"{_MAPS}/").split("/")[1:])
        return f"{quoted(asked)} is not a question about a map; there are: {there}"

    def _quick(self, answer: Answer) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await asyncio.get_running_loop().run_in_executor(self._questions, answer, request)

        return handle

    async def _index(self, request: web.Request) -> web.Response:
        if INDEX not in self._page:
            raise unknown("the page is not there")
        page = self._page[INDEX].answer(request)
        return framed(page, self._ancestors if "embed" in request.query else ())

    async def _page_file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._page:
            raise unknown(f"the page has no file {quoted(name)}")
        return self._page[name].answer(request)

    async def _image(self, request: web.Request) -> web.Response:
        """Answers with an image, or with the picture that it shows."""
        name = request.match_info["image"]
        if not is_image_name(name):
            raise unknown(
                f"{quoted(name)} is not an image's name: write its sha1 and its extension, as in a view"
            )
        sha1, _, extension = name.partition(".")
        tag = f'"{sha1}"'
        headers = {"Content-Type": _KINDS[extension], "Cache-Control": FOR_EVER, "ETag": tag}
        # The name says what the content is, so nothing is read for a client that has the image.
        if is_named(request, tag):
            return not_modified(headers)

        def read() -> bytes:
            body = self._store.named(name)
            return picture_of(body) if request.path.startswith("/pictures/") else body

        try:
            body = await asyncio.get_running_loop().run_in_executor(self._images, read)
        except MissingImageError:
            raise unknown(f"the store has no image {name}") from None
        except StoreError as failed:
            _log.error("%s", failed)
            raise RefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"image {name} is damaged or cannot be read"
            ) from None
        return not_modified(headers) if knows(request, tag) else reply(body, headers)

    def _asked(self, question: Question) -> Answer:
        return lambda request: json(self._encoded(question, request), request)

    def _remembering(self, question: Question) -> Answer:
        return lambda request: json(
            self._remembered(request, lambda: self._encoded(question, request)), request
        )

    def _encoded(self, question: Question, request: web.Request) -> bytes:
        names = tuple(request.match_info.values())
        return msgspec.json.encode(question(self._served, names, _query(request)))

    def _composed(self, request: web.Request) -> web.Response:
        names = tuple(request.match_info.values())
        return composed_picture(self._served, self._composer, names, request)

    def _ground_picture(self, request: web.Request) -> web.Response:
        name, *texts = request.match_info.values()
        days: tuple[date, ...] = picture_days(texts, ".jpg")

        def make() -> bytes:
            return ground_picture(self._served, self._store, self._composer, name, days, _query(request))

        body = self._remembered(request, make)
        if not body:
            # A browser would report status 404 as an error, and it is none.
            return reply(b"", {"Cache-Control": AFTER_ASKING}, HTTPStatus.NO_CONTENT)
        return tagged(body, tag_of(body), _PICTURE, request, None)

    def _pixels(self, request: web.Request) -> web.Response:
        def make() -> bytes:
            return pixel_story(self._served, self._store, request.match_info["map"], _query(request))

        return compressible(self._remembered(request, make), _LINES, request)

    def _feed(self, request: web.Request) -> web.Response:
        name, form = request.match_info["map"], request.path.rpartition("/")[2]
        # A feed reader needs whole addresses, so the answer depends on the viewer's address.
        viewer = self._address(name, request)

        def make() -> bytes:
            return feed(self._served, name, form, viewer, _query(request))

        headers = {"Content-Type": FEEDS[form], "Cache-Control": AFTER_ASKING}
        return compressible(self._remembered(request, make, viewer), headers, request)

    def _shared_page(self, request: web.Request) -> web.Response:
        names = request.match_info["names"].split("/")
        place = shared_place(self._served, names, known_parameters(_query(request)))
        body = place.html(self._address(place.outline.name, request)).encode()
        headers = {"Content-Type": HTML, "Cache-Control": AFTER_ASKING}
        return framed(compressible(body, headers, request), self._ancestors if place.is_embedded else ())

    def _shared_picture(self, request: web.Request) -> web.Response:
        place = shared_place(self._served, tuple(request.match_info.values()), _query(request))

        def make() -> bytes:
            return place_picture(self._served, self._store, self._composer, place)

        body = self._remembered(request, make)
        response = tagged(body, tag_of(body), _PICTURE, request, None)
        if self._ancestors:
            # Sites that may show the page in a frame may show its picture, too.
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    def _oembed(self, request: web.Request) -> web.Response:
        # The address names the map, and the map may have an address of its own.
        viewer = self._address(shared_name(request.query.get("url", "")), request)
        told = oembed(self._served, viewer, _query(request), is_framed=bool(self._ancestors))
        return json(msgspec.json.encode(told), request)

    def _address(self, map_name: str, request: web.Request) -> str:
        """Returns the viewer's address for other people, with a slash at its end. Behind another server only
        the map's owner knows it, and may have written it into maps.toml."""
        described = self._served.described(map_name)
        viewer = (described.viewer if described else "") or f"{request.url.origin()}/"
        # People copy the address of a place on the page, which stands behind `#`.
        return f"{viewer.split('#', 1)[0].rstrip('/')}/"

    def _remembered(self, request: web.Request, make: Callable[[], bytes], also: str = "") -> bytes:
        """Returns the answer to a request about a map from the cache on disk, or makes it.

        It depends on the address, the query, and `also`. Answers are not kept if a harvest of the map is
        unfinished. Raises RefusedError for a map that is not served, and what `make` raises. Call it in a
        thread.
        """
        state = self._served.outline(request.match_info["map"]).ended
        if not state or state[-1] is None:
            return make()
        asked = [request.path, *map(list, sorted(_query(request))), also]
        key = msgspec.json.encode([_FORM, len(state), state[-1], asked]).decode()
        kept = self._cache.get(key)
        if kept is None:
            kept = make()
            self._cache.put(key, kept)
        return kept


async def _alive(request: web.Request) -> web.Response:
    return reply(b'{"ok":true}', {"Content-Type": JSON, "Cache-Control": NEVER})


def _query(request: web.Request) -> Query:
    return list(request.query.items())


def _queued(queue: WorkQueue, answer: Answer) -> Any:
    """Returns a handler whose answer is made when its turn comes in the queue, or an empty one if the client
    has hung up by then. It may have scrolled on."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await queue.run(lambda: reply(b"", {}) if request.transport is None else answer(request))

    return handle
