"""A probed site, and how a probe asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import msgspec

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.maps.template import is_address
from tileharvest.renderers.bounds import MOST_LAYERS, shown
from tileharvest.tiles.images import MOST_PIXELS
from tileharvest.tiles.layers import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.walk.change_index import ChangeIndex


class Fetched(NamedTuple):
    """The parts of an answer that a probe needs."""

    status: int
    body: bytes = b""
    url: str = ""
    """The address that answered, after any redirects."""

    @property
    def folder(self) -> str:
        """The folder of the address, with a slash at its end."""
        return self.url.partition("?")[0].rpartition("/")[0] + "/"

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace")


Fetch = Callable[[str, str], Awaitable[Fetched]]
"""The function by which a probe asks: `await fetch(method, url)`. It raises SiteError if the site gives no
answer at all."""


def path_of(url: str, page: str) -> str | None:
    """Returns the path of the file at an address below the map's page, or None for any other address. Of a
    folder a web server sends the file `index.html`."""
    plain, page = unquote(url.partition("#")[0].partition("?")[0]), unquote(page)
    path = plain.removeprefix(page) if plain.startswith(page) else None
    return f"{path}index.html" if path is not None and (path.endswith("/") or not path) else path


class UnrecognisedError(SiteError):
    """Nothing at a map's address belongs to the renderer that has looked for it."""


def not_found(what: str) -> UnrecognisedError:
    """Returns the error to raise if a file is missing. `what` says which, such as `there is no
    https://...`."""
    return UnrecognisedError(
        f"{what}: is the address right, or has the map moved? put the right url into maps.toml"
    )


class ForbiddenError(SiteError):
    """robots.txt forbids something of a map, which was not asked for."""

    def __init__(self, message: str, site: Site | None = None) -> None:
        super().__init__(message)
        self.site = site
        """The site as the probe has read it. None unless only tiles are forbidden."""


@contextmanager
def as_written(url: str, title: str) -> Iterator[None]:
    """Turns every error that a damaged or strange file causes into a SiteError.

    `url` is the file's address, and `title` the program that should have written it.
    """
    try:
        yield
    except SiteError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise SiteError(f"{url} is not as {title} writes it: {error}") from None
        raise SiteError(f"{url} is cut off or damaged ({error}); try again later") from None
    except (LookupError, ValueError, ArithmeticError, RecursionError) as error:
        raise SiteError(f"{url} is not as {title} writes it: {error}") from None


class ReadLayers(list[Layer]):
    """The layers that the files of a site name and that are within the bounds, and the reasons why others are
    refused.

    A layer that is wrong does no harm to the others.
    """

    def __init__(self, url: str, title: str) -> None:
        """`url` is the address of the file that names the layers, and `title` the program that has written
        it."""
        super().__init__()
        self._url, self._title = url, title
        self.refused: dict[str, str] = {}
        """By the name of each refused layer, the line that says what is wrong with it."""

    @contextmanager
    def reading(self, name: object, url: str = "") -> Iterator[None]:
        """Refuses the layer of this name if an error within the block shows that it is wrong, and removes the
        layers that the block has added. `url` is the address of the layer's own file, if it has one."""
        before = len(self)
        try:
            with as_written(f"{url or self._url}: layer '{shown(name)}'", self._title):
                yield
                for layer in self[before:]:
                    if layer.name in {other.name for other in self[:before]}:
                        raise ValueError("the site names it twice")
        except SiteError as error:
            self.refused.setdefault(str(name), str(error))
            del self[before:]


def _check_tiles(layer: Layer) -> None:
    """Raises ValueError if the tiles of a layer have no address that can be asked, or would be refused as
    images because of their size."""
    if not is_address(layer.addresses.folder):
        raise ValueError(
            f"its tiles lie at '{shown(layer.addresses.folder)}', which is not an address of a site"
        )
    width, height = layer.tile_size
    if width * height > MOST_PIXELS:
        raise ValueError(f"its tiles have {width:,} x {height:,} pixels, and {MOST_PIXELS:,} are the most")


@dataclass(frozen=True, slots=True)
class Site:
    """The layers of a map's site that the map keeps."""

    renderer: str
    """The renderer's name in maps.toml."""
    layers: tuple[Layer, ...]
    answers_head: bool = True
    """Whether the server answers HEAD as it should, without a body. If not, everything is asked by GET,
    conditionally if possible."""
    notes: tuple[str, ...] = ()
    """Lines for a person about what is harvested and what is not. Each is said once in each harvest."""
    indexes: Mapping[str, ChangeIndex] = field(default_factory=dict)
    """The change indexes by layer. Layers whose site has none, or was not asked, are missing."""
    refused: tuple[str, ...] = ()
    """For each wanted layer that is refused, the line that says why. The other layers are kept."""


def site_of(renderer: str, description: MapDescription, layers: Iterable[Layer], source: str) -> Site:
    """Returns the site with the layers that the map keeps: those that maps.toml names, or else all but
    overlays.

    `source` is the address of the file that names the layers. Raises ConfigurationError for a layer that the
    site lacks, and SiteError if there is no layer to keep. A refused layer is not lacking.
    """
    by_name: dict[str, Layer] = {}
    refused = dict(layers.refused) if isinstance(layers, ReadLayers) else {}
    for layer in layers:
        try:
            with as_written(f"{source}: layer '{shown(layer.name)}'", renderer):
                _check_tiles(layer)
            by_name[layer.name] = layer
        except SiteError as error:
            refused.setdefault(layer.name, str(error))
    if len(by_name) + len(refused) > MOST_LAYERS:
        raise SiteError(
            f"{source} names {len(by_name) + len(refused):,} layers, and {MOST_LAYERS:,} are the most"
        )
    if description.layers:
        for wanted in description.layers:
            # A refused name may also be a whole world, whose layers nobody knows.
            if wanted not in by_name and not any(_is_in(wanted, name) for name in refused):
                has = ", ".join([*by_name, *refused])
                raise ConfigurationError(
                    f"the site of map '{description.name}' has no layer '{wanted}'; it has: {has}"
                )
        chosen = tuple(by_name[name] for name in description.layers if name in by_name)
        unread = [name for name in description.layers if name not in by_name or name in refused]
        refused = {name: why for name, why in refused.items() if any(_is_in(one, name) for one in unread)}
    else:
        chosen = tuple(layer for layer in by_name.values() if not layer.overlay)
    if not chosen:
        if refused:
            raise SiteError(next(iter(refused.values())))
        raise SiteError(f"{source} has no layer but overlays" if by_name else f"{source} has no layer")
    return Site(renderer, chosen, refused=tuple(dict.fromkeys(refused.values())))


def _is_in(layer: str, name: str) -> bool:
    """Returns whether a layer is the one of this name, or belongs to the world of this name."""
    return layer == name or layer.startswith(f"{name}/")


async def fetch_config(fetch: Fetch, url: str, *, is_page: bool = False) -> Fetched | None:
    """Returns a file that a renderer writes beside its map, or None if there is no such file.

    404, 410 and 204 mean that there is none; some renderers' own servers answer 204. An HTML page means the
    same, unless a page is wanted (`is_page`): some hosts send one for every address that they do not know.
    Raises SiteError for any other status but 200, which does not say what the site has.
    """
    answer = await fetch("GET", url)
    if answer.status == 200:
        if not is_page and answer.body[:256].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            return None
        return answer._replace(url=answer.url or url)
    if answer.status in (204, 404, 410):
        return None
    raise _unclear(url, answer.status)


async def is_there(fetch: Fetch, url: str) -> bool:
    """Returns whether there is a tile at an address. Raises SiteError for an answer that leaves it open.

    If the answer to HEAD does not show a tile, a GET follows: some servers refuse HEAD by 405, 403 or 404.
    """
    answer = await fetch("HEAD", url)
    if answer.status != 200:
        answer = await fetch("GET", url)
    if answer.status not in (200, 404, 410):
        raise _unclear(url, answer.status)
    return answer.status == 200


def _unclear(url: str, status: int) -> SiteError:
    """Returns the error for an answer that does not say what the site has."""
    refuses = status in (401, 403)
    advice = "write to the owner of the map, who may let you in" if refuses else "try again later"
    return SiteError(f"{url} answers {status}: nothing was changed; {advice}")
