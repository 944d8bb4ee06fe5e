"""The application: which address is answered by what, and in which thread."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import msgspec
from aiohttp import web

from tileharvest.errors import HistoryError, StoreError
from tileharvest.export.target import Awaited
from tileharvest.pictures.composer import ComposerStoppedError
from tileharvest.pictures.pixels import picture_of
from tileharvest.store.port import MissingImageError
from tileharvest.tiles.versions import is_image_name
from tileharvest.viewer import api
from tileharvest.viewer.composed_pictures import composed_picture
from tileharvest.viewer.feeds import FEEDS, feed
from tileharvest.viewer.films import film
from tileharvest.viewer.ground_replies import ground_picture, pixel_story
from tileharvest.viewer.page_files import INDEX
from tileharvest.viewer.parameters import Parameters, picture_days
from tileharvest.viewer.replies import (
    AFTER_ASKING,
    FOR_EVER,
    HEADERS,
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
    LostPlaceError,
    known_parameters,
    names_in,
    place_picture,
    shared_name,
    shared_place,
    spoken,
)
from tileharvest.viewer.work_queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tileharvest.pictures.composer import Composer
    from tileharvest.store.cache import DiskCache
    from tileharvest.store.port import TileStore
    from tileharvest.viewer.page_files import PageFile
    from tileharvest.viewer.parameters import Query
    from tileharvest.viewer.served_maps import ServedMaps

    Question = Callable[[ServedMaps, Sequence[str], Query], Any]

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
cores the last of so many pictures comes after two seconds, or after a minute if all are of many levels."""
_LONG_THREADS: Final = 1
_LONG_WAITING: Final = 16
"""Each of these questions takes up to seconds over a million versions, so the last one waits for half a
minute."""
_FILM_THREADS: Final = 1
_FILMS_WAITING: Final = 4
"""Each film takes up to a minute."""
_FORMS: Final = (
    "areas",
    "areas/AREA",
    "before/DAY/DAY.jpg",
    "composed/TILE/DAY.png",
    "film.webp",
    "ground/DAY.jpg",
    "harvests",
    "pixels",
    "tiles/TILE",
)
"""The forms of the questions about a map that are not in the tables of `api` and `feeds`."""
_FORM: Final = "answer 1"
"""The form of the answers, a part of each name in the cache. Change the number with the form: the cache
outlives the program."""

_KINDS: Final = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_PICTURE: Final = {"Content-Type": "image/jpeg", "Cache-Control": AFTER_ASKING}
"""The headers of a picture of the past, which an import may change."""
FAILED: Final = "the viewer failed; its log says why"


class Application:
    """Answers every request, whatever it asks and whatever fails. Used from one event loop.

    Nothing that may wait for a disk runs in the event loop. Quick questions, long questions, the reading of
    images, the composing of pictures and films have threads of their own, so that no kind of work waits for
    another. Work that takes long has a queue with a bound. All other work is bounded by the server's
    connections.
    """

    def __init__(
        self,
        served: ServedMaps,
        store: TileStore,
        composer: Composer,
        page: Mapping[str, PageFile],
        cache: DiskCache,
        ancestors: tuple[str, ...] = (),
        most_filmed: int = 0,
    ) -> None:
        """`cache` keeps the answers to long questions about harvests that have ended. `ancestors` are the
        sites that may show the page in a frame. Films are made of `most_filmed` tiles at most."""
        self._served = served
        self._store = store
        self._composer = composer
        self._page = page
        self._cache = cache
        self._ancestors = ancestors
        self._most_filmed = most_filmed
        self._questions = ThreadPoolExecutor(_QUESTION_THREADS, "history")
        self._images = ThreadPoolExecutor(_IMAGE_THREADS, "images")
        self._long_questions = WorkQueue("long-questions", _LONG_THREADS, _LONG_WAITING)
        self._composing = WorkQueue("composing", _COMPOSING_THREADS, _COMPOSING_WAITING)
        self._filming = WorkQueue("films", _FILM_THREADS, _FILMS_WAITING)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Returns the answer to a request. Raises nothing but CancelledError."""
        try:
            return await self._answer(request)
        except RefusedError as refused:
            return error(refused.status, str(refused), refused.headers)
        except HistoryError as failed:
            _log.error("%s", failed)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, str(failed))
        except ComposerStoppedError:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "the viewer is being stopped")
        except Exception:  # noqa: BLE001 - a bug must not take the server's other answers with it
            _log.exception("%s %s failed", request.method, request.rel_url)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED)

    def close(self) -> None:
        """Lets no more work begin. Work that is under way in threads comes to its end."""
        self._composer.stop()
        for threads in (self._questions, self._images):
            threads.shutdown(wait=False, cancel_futures=True)
        for queue in (self._long_questions, self._composing, self._filming):
            queue.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in METHODS:
            allowed = ", ".join(METHODS)
            message = f"{quoted(request.method)} is not possible here, only {allowed}"
            return error(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": allowed})
        match [unquote(part) for part in request.rel_url.raw_path.split("/")[1:]]:
            case ["tiles", name]:
                return await self._image(name, request, self._store.named)
            case ["pictures", name]:
                return await self._image(name, request, lambda name: picture_of(self._store.named(name)))
            case [""]:
                page = self._page_file(INDEX, request)
                return framed(page, self._ancestors if "embed" in request.query else ())
            case ["page", *names]:
                return self._page_file("/".join(names), request)
            case ["healthz"]:
                return reply(b'{"ok":true}', {"Content-Type": JSON, "Cache-Control": NEVER})
            case ["oembed"]:
                return await _in_thread(self._questions, lambda: self._oembed(request))
            case ["s", *names]:
                return await self._shared(names, request)
            case ["api", "v1", "maps", *names]:
                return await self._of_maps(names, request)
        raise unknown(f"there is nothing at {quoted(request.rel_url.raw_path)}")

    async def _of_maps(self, parts: Sequence[str], request: web.BaseRequest) -> web.StreamResponse:
        match parts:
            case [_, "composed", _, _]:
                names = parts[0], *parts[2:]
                return await _run(
                    self._composing,
                    request,
                    lambda: composed_picture(self._served, self._composer, names, request),
                )
            case [name, "before", _, _] | [name, "ground", _]:
                return await _run(
                    self._composing, request, lambda: self._ground_picture(name, parts[2:], request)
                )
            case [name, "film.webp"]:
                return await _run(self._filming, request, lambda: self._film(name, request))
            case [name, "pixels"]:
                return await self._pixels(name, request)
            case [name, form] if form in FEEDS:
                return await _run(self._long_questions, request, lambda: self._feed(name, form, request))
            case [name, question] if question in api.LONG:
                return await _run(
                    self._long_questions, request, lambda: self._long_asked(name, question, request)
                )
        return await _in_thread(self._questions, lambda: self._asked(parts, request))

    def _page_file(self, name: str, request: web.BaseRequest) -> web.Response:
        if name not in self._page:
            raise unknown(f"the page has no file {quoted(name)}")
        return self._page[name].answer(request)

    async def _image(self, name: str, request: web.BaseRequest, read: Callable[[str], bytes]) -> web.Response:
        if not is_image_name(name):
            raise unknown(f"{quoted(name)} is no image: write its sha1 and its extension, as in a view")
        sha1, _, extension = name.partition(".")
        tag = f'"{sha1}"'
        headers = {"Content-Type": _KINDS[extension], "Cache-Control": FOR_EVER, "ETag": tag}
        # The name tells the content, so nothing is read for a client that has the image.
        if is_named(request, tag):
            return not_modified(headers)
        try:
            body = await _in_thread(self._images, lambda: read(name))
        except MissingImageError:
            raise unknown(f"the store has no image {name}") from None
        except StoreError as failed:
            _log.error("%s", failed)
            raise RefusedError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"image {name} is damaged or cannot be read"
            ) from None
        return not_modified(headers) if knows(request, tag) else reply(body, headers)

    def _asked(self, parts: Sequence[str], request: web.BaseRequest) -> web.Response:
        question, names = _question(parts)
        return json(msgspec.json.encode(question(self._served, names, _query(request))), request)

    def _long_asked(self, name: str, question: str, request: web.BaseRequest) -> web.Response:
        query = _query(request)

        def make() -> bytes:
            return msgspec.json.encode(api.LONG[question](self._served, (name,), query))

        return json(self._remembered(name, (question,), query, make), request)

    def _ground_picture(self, name: str, days: Sequence[str], request: web.BaseRequest) -> web.Response:
        of_days, query = picture_days(days, ".jpg"), _query(request)

        def make() -> bytes:
            return ground_picture(self._served, self._store, self._composer, name, of_days, query)

        body = self._remembered(name, ("ground", *days), query, make)
        if not body:
            # A browser would report status 404 as an error, and it is none.
            return reply(b"", {"Cache-Control": AFTER_ASKING}, HTTPStatus.NO_CONTENT)
        return tagged(body, tag_of(body), _PICTURE, request, None)

    def _film(self, name: str, request: web.BaseRequest) -> web.Response:
        query = _query(request)

        def check() -> None:
            if request.transport is None:
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "nobody waits for this film any more")

        def make() -> bytes:
            return film(self._served, self._store, name, query, self._most_filmed, Awaited(check))

        body = self._remembered(name, ("film", self._most_filmed), query, make)
        return tagged(body, tag_of(body), {**_PICTURE, "Content-Type": "image/webp"}, request, None)

    async def _shared(self, names: Sequence[str], request: web.BaseRequest) -> web.Response:
        if len(names) == 3 and names[-1].endswith(".jpg"):
            return await _run(self._composing, request, lambda: self._shared_picture(names, request))
        return await _in_thread(self._questions, lambda: self._shared_page(names, request))

    def _shared_page(self, names: Sequence[str], request: web.BaseRequest) -> web.Response:
        query = known_parameters(_query(request))
        try:
            place = shared_place(self._served, names, query)
        except LostPlaceError as lost:
            if "text/html" not in request.headers.get("Accept", ""):
                raise
            page = lost.html(
                spoken(query, request.headers.get("Accept-Language", "")), "../" * len(names) or "./"
            )
            return reply(page.encode(), {"Content-Type": HTML, "Cache-Control": NEVER}, lost.status)
        body = place.html(self._address(place.outline.name, request)).encode()
        headers = {"Content-Type": HTML, "Cache-Control": AFTER_ASKING}
        return framed(compressible(body, headers, request), self._ancestors if place.is_embedded else ())

    def _shared_picture(self, names: Sequence[str], request: web.BaseRequest) -> web.Response:
        query = _query(request)
        place = shared_place(self._served, (*names[:2], names[2].removesuffix(".jpg")), query)

        def make() -> bytes:
            return place_picture(self._served, self._store, self._composer, place)

        body = self._remembered(place.outline.name, ("shared", *names), query, make)
        response = tagged(body, tag_of(body), _PICTURE, request, None)
        if self._ancestors:
            # Sites that may show the page in a frame may show its picture, too.
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    def _oembed(self, request: web.BaseRequest) -> web.Response:
        parameters = Parameters(_query(request), ("url",), ("format", "maxwidth", "maxheight"))
        if "format" in parameters and parameters.text("format") != "json":
            # The status that oEmbed asks for, in section 2.3.3.
            raise RefusedError(HTTPStatus.NOT_IMPLEMENTED, "oEmbed is told as JSON only: write format=json")
        wide, high = (parameters.number(name, 1, 100_000, 100_000) for name in ("maxwidth", "maxheight"))
        # The address names the map, and the map may have an address of its own.
        map_name = shared_name(parameters.text("url"))
        viewer = self._address(map_name, request)
        names, query = names_in(parameters.text("url"), viewer)
        place = shared_place(self._served, names, known_parameters(query))
        told = place.oembed(viewer, wide, high, is_framed=bool(self._ancestors))
        return json(msgspec.json.encode(told), request)

    def _address(self, map_name: str, request: web.BaseRequest) -> str:
        """Returns the viewer's address for other people, with a slash at its end. Behind another server only
        the map's owner knows it, and may have written it into maps.toml."""
        described = self._served.described(map_name)
        viewer = (described.viewer if described else "") or f"{request.url.origin()}/"
        # People copy the address of a place on the page, which stands behind `#`.
        return f"{viewer.split('#', 1)[0].rstrip('/')}/"

    def _feed(self, name: str, form: str, request: web.BaseRequest) -> web.Response:
        # A feed reader needs whole addresses, so the answer depends on the viewer's address.
        viewer, query = self._address(name, request), _query(request)

        def make() -> bytes:
            return feed(self._served, name, form, viewer, query)

        body = self._remembered(name, (form, viewer), query, make)
        return compressible(body, {"Content-Type": FEEDS[form], "Cache-Control": AFTER_ASKING}, request)

    async def _pixels(self, name: str, request: web.BaseRequest) -> web.StreamResponse:
        """Answers with the story of some pixels, and sends each line as soon as it is found."""
        loop, query = asyncio.get_running_loop(), _query(request)
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()

        def tell() -> bytes:
            story = pixel_story(self._served, self._store, name, query)
            return self._remembered(name, ("pixels",), query, lambda: whole(story()))

        def whole(story: Iterator[bytes]) -> bytes:
            told = []
            for line in story:
                if request.transport is None:
                    raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "nobody waits for this story any more")
                told.append(line)
                loop.call_soon_threadsafe(lines.put_nowait, line)
            return b"".join(told)

        def told(done: asyncio.Future[bytes]) -> None:
            # If the reader has left, nobody else asks for the exception.
            if not done.cancelled():
                done.exception()
            lines.put_nowait(None)

        telling = asyncio.ensure_future(self._long_questions.run(tell))
        telling.add_done_callback(told)
        headers = {"Content-Type": "application/x-ndjson", "Cache-Control": NEVER}
        line = await lines.get()
        if line is None or request.method == "HEAD":
            return reply(await telling, headers)
        response = web.StreamResponse(headers={**HEADERS, **headers})
        # A reader who leaves in between is no failure.
        with suppress(ConnectionResetError):
            await response.prepare(request)
            while line is not None:
                await response.write(line)
                line = await lines.get()
            if telling.exception() is not None and request.transport is not None:
                _log.error("a story of map %s broke off", name, exc_info=telling.exception())
                await response.write(msgspec.json.encode({"error": FAILED}) + b"\n")
            await response.write_eof()
        return response

    def _remembered(
        self, map_name: str, asked: Sequence[Any], query: Query, make: Callable[[], bytes]
    ) -> bytes:
        """Returns an answer about a map from the cache on disk, or makes the answer.

        `asked`, in plain types, and the query tell the question from all others. Answers are not kept if a
        harvest of the map is unfinished. Raises RefusedError for a map that is not served, and what `make`
        raises. Call it in a thread.
        """
        state = self._served.outline(map_name).ended
        if not state or state[-1] is None:
            return make()
        whole = [*asked, *map(list, sorted(query))]
        key = msgspec.json.encode([_FORM, map_name, len(state), state[-1], whole]).decode()
        kept = self._cache.get(key)
        if kept is None:
            kept = make()
            self._cache.put(key, kept)
        return kept


def _question(parts: Sequence[str]) -> tuple[Question, Sequence[str]]:
    match parts:
        case []:
            return api.list_maps, ()
        case [name]:
            return api.outline, (name,)
        case [name, "harvests"]:
            return api.list_harvests, (name,)
        case [name, "areas"]:
            return api.list_areas, (name,)
        case [name, "areas", area]:
            return api.area_story, (name, area)
        case [name, "tiles", tile]:
            return api.tile_story, (name, tile)
        case [name, question] if question in api.OF_LAYERS:
            return api.OF_LAYERS[question], (name,)
    there = ", ".join([*_FORMS, *api.OF_LAYERS, *api.LONG, *FEEDS])
    raise unknown(f"{quoted('/'.join(parts[1:]))} is no question about a map; there are: {there}")


def _query(request: web.BaseRequest) -> list[tuple[str, str]]:
    return list(request.query.items())


async def _run(
    queue: WorkQueue, request: web.BaseRequest, answer: Callable[[], web.Response]
) -> web.Response:
    """Returns the answer, which is made when its turn comes in the queue, or an empty one if the client has
    hung up by then. It may have scrolled on."""
    return await queue.run(lambda: reply(b"", {}) if request.transport is None else answer())


async def _in_thread(threads: ThreadPoolExecutor, call: Callable[[], _Result]) -> _Result:
    return await asyncio.get_running_loop().run_in_executor(threads, call)
