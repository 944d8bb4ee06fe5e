"""A probed site, and how a probe asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import chompjs
import msgspec

from tileharvest.errors import ConfigurationError, SiteError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.layers import Layer
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
    except (LookupError, ValueError, ArithmeticError) as error:
        raise SiteError(f"{url} is not as {title} writes it: {error}") from None


def parse_script(text: str, variable: str = "") -> Any:
    """Returns the first value after a name in a JavaScript.

    Raises `msgspec.DecodeError` where there is none that can be read.
    """
    try:
        return chompjs.parse_js_object(text[text.index(variable) + len(variable) :])
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Site:
    """The layers of a map's site that the map keeps."""

    renderer: str
    """Its name in maps.toml."""
    layers: tuple[Layer, ...]
    probed: bool = False
    """Whether the depths were found by asking for tiles, because the site has no configuration."""
    answers_head: bool = True
    """Whether its server answers HEAD as it should, without a body. Else all is asked by GET, under
    conditions where that can be."""
    notes: tuple[str, ...] = ()
    """What a person should know of what is harvested and what is left alone. Each is a line of its own, which
    is said once in each harvest."""
    indexes: Mapping[str, ChangeIndex] = field(default_factory=dict)
    """By layer, what the site says of its own changes; of none that says nothing, or was not asked."""


def kept_layers(description: MapDescription, layers: Iterable[Layer], source: str) -> tuple[Layer, ...]:
    """Returns those of a site's layers that the map keeps: the ones that it names, or all but overlays.

    `source` is the address that named them. Raises ConfigurationError for a layer that the site lacks, and
    SiteError where nothing but overlays is there.
    """
    by_name = {layer.name: layer for layer in layers}
    if not description.layers:
        chosen = tuple(layer for layer in by_name.values() if not layer.overlay)
        if not chosen:
            raise SiteError(f"{source} has no layer but overlays" if by_name else f"{source} has no layer")
        return chosen
    require_layers(description, by_name)
    return tuple(by_name[name] for name in description.layers)


def require_layers(description: MapDescription, names: Collection[str]) -> None:
    """Raises ConfigurationError for a layer that maps.toml names and the site, which has these, lacks."""
    missing = [name for name in description.layers if name not in names]
    if missing:
        raise ConfigurationError(
            f"the site of map '{description.name}' has no layer '{missing[0]}'; it has: {', '.join(names)}"
        )


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
