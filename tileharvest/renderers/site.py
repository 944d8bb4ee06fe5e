"""A probed site, and how a probe asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from tileharvest.errors import ConfigurationError, SiteError
from tileharvest.renderers.bounds import MOST_LAYERS, shown
from tileharvest.tiles.images import MOST_PIXELS
from tileharvest.tiles.layers import Layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.walk.change_index import ChangeIndex


class Fetched(NamedTuple):
    """What a fetch brings, as far as a probe needs it."""

    status: int
    body: bytes = b""
    url: str = ""
    """The address that answered, after redirects."""

    @property
    def folder(self) -> str:
        """That of the address, with a slash at its end."""
        return self.url.partition("?")[0].rpartition("/")[0] + "/"

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace")


Fetch = Callable[[str, str], Awaitable[Fetched]]
"""Is called as `await fetch(method, url)`. Raises SiteError when the site gives no answer at all."""


INDEX: Final = "index.html"
"""What a web server sends for a folder."""


def path_of(url: str, page: str) -> str | None:
    """Returns the path of an address below the map's page, or None for any other address."""
    plain = url.partition("#")[0].partition("?")[0]
    return unquote(plain.removeprefix(page)) if plain.startswith(page) else None


class UnrecognisedError(SiteError):
    """There is nothing at a map's address that belongs to the renderer that was asked."""


def not_found(what: str) -> UnrecognisedError:
    """`what` says what there is not, such as `there is no https://...`."""
    return UnrecognisedError(
        f"{what}: is the address right, or has the map moved? put the right url into maps.toml"
    )


@contextmanager
def as_written(url: str, title: str) -> Iterator[None]:
    """Makes a SiteError of whatever shows that the file at this address is not as `title` writes it."""
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
    """The layers that the files of a site name, as far as they are within the bounds, and why others are not.

    What is wrong with one layer is no harm to the others.
    """

    def __init__(self, url: str, title: str) -> None:
        """`url` is the address of the file that names them, and `title` the program that has written it."""
        super().__init__()
        self._url, self._title = url, title
        self.refused: dict[str, str] = {}
        """By the name of a layer the line that says what is wrong with it."""

    @contextmanager
    def reading(self, name: object, url: str = "") -> Iterator[None]:
        """Refuses the layer of this name for whatever shows that it is not as it should be.

        `url` is the address of its own file, where it has one.
        """
        before, said = len(self), shown(name)
        try:
            with as_written(f"{url or self._url}: layer '{said}'", self._title):
                yield
                names = {layer.name for layer in self[:before]}
                for layer in self[before:]:
                    if layer.name in names:
                        raise ValueError("the site names it twice")
                    _check_tiles(layer)
                    names.add(layer.name)
        except SiteError as error:
            self.refuse(str(name), str(error))
            del self[before:]

    def refuse(self, name: str, why: str) -> None:
        self.refused.setdefault(name, why)


def _check_tiles(layer: Layer) -> None:
    """Raises ValueError where the tiles of a layer have no address that can be asked, or would be refused as
    images for their size."""
    parts = urlsplit(layer.addresses.folder)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"its tiles lie at '{shown(layer.addresses.folder)}', which is no address of a site")
    width, height = layer.tile_size
    if width * height > MOST_PIXELS:
        raise ValueError(f"its tiles have {width:,} x {height:,} pixels, and {MOST_PIXELS:,} are the most")


@dataclass(frozen=True, slots=True)
class Site:
    """The layers of a map's site that the map keeps."""

    renderer: str
    """Its name in maps.toml."""
    layers: tuple[Layer, ...]
    probed: bool = False
    """Whether the depths were found by asking for tiles, because the site has no configuration."""
    tells_sizes: bool = True
    """Whether the site says how large its tiles are. Else those of its layers are what is usual."""
    answers_head: bool = True
    """Whether its server answers HEAD as it should, without a body. Else all is asked by GET, under
    conditions where that can be."""
    has_index_apart: bool = False
    """Whether its change indexes have files of their own, which tell of every render, while its configuration
    tells of none. So while they are as they were the configuration need not be asked for at each harvest."""
    notes: tuple[str, ...] = ()
    """What a person should know of what is harvested and what is left alone. Each is a line of its own, which
    is said once in each harvest."""
    indexes: Mapping[str, ChangeIndex] = field(default_factory=dict)
    """By layer, what the site says of its own changes; of none that says nothing, or was not asked."""
    refused: tuple[str, ...] = ()
    """Of each layer that is wanted and cannot be kept, the line that says why. The others are kept."""


def site_of(renderer: str, description: MapDescription, layers: Iterable[Layer], source: str) -> Site:
    """Returns the site with those of its layers that the map keeps: the ones that it names, or all but
    overlays.

    `source` is the address that named them. Raises ConfigurationError for a layer that the site lacks, and
    SiteError where nothing but overlays is there, or nothing that can be kept.
    """
    by_name = {layer.name: layer for layer in layers}
    refused = layers.refused if isinstance(layers, ReadLayers) else {}
    if len(by_name) + len(refused) > MOST_LAYERS:
        raise SiteError(
            f"{source} names {len(by_name) + len(refused):,} layers, and {MOST_LAYERS:,} are the most"
        )
    for layer in by_name.values():
        with as_written(f"{source}: layer '{shown(layer.name)}'", renderer):
            _check_tiles(layer)
    if description.layers:
        require_layers(description, by_name, refused)
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


def require_layers(
    description: MapDescription, names: Collection[str], refused: Collection[str] = ()
) -> None:
    """Raises ConfigurationError for a layer that maps.toml names and the site, which has these, lacks.

    What was `refused` it has, too. That may be a whole world of whose layers nobody knows.
    """
    for wanted in description.layers:
        if wanted not in names and not any(_is_in(wanted, name) for name in refused):
            has = ", ".join([*names, *refused])
            raise ConfigurationError(
                f"the site of map '{description.name}' has no layer '{wanted}'; it has: {has}"
            )


def _is_in(layer: str, name: str) -> bool:
    """Returns whether a layer of this name is what is called so, or belongs to a world that is."""
    return layer == name or layer.startswith(f"{name}/")


async def fetch_config(fetch: Fetch, url: str) -> Fetched | None:
    """Returns a file that a renderer writes beside its map, or None where there is none.

    Some renderers' own servers say that by 204. Raises SiteError for any other answer than these: nobody
    knows what the site has.
    """
    answer = await fetch("GET", url)
    if answer.status == 200:
        return answer._replace(url=answer.url or url)
    if answer.status in (204, 404, 410):
        return None
    raise SiteError(f"{url} answers {answer.status}: nothing was changed; try again later")


async def is_there(fetch: Fetch, url: str) -> bool:
    """Returns whether there is a tile at an address.

    It takes a second request where HEAD is refused. Raises SiteError for an answer that does not tell.
    """
    answer = await fetch("HEAD", url)
    if answer.status in (405, 501):
        answer = await fetch("GET", url)
    if answer.status not in (200, 404, 410):
        raise SiteError(f"{url} answers {answer.status}: nothing was changed; try again later")
    return answer.status == 200
