"""Markers of a site's map: places of the world at which there is land, such as towns and homes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard
from urllib.parse import quote

import msgspec

from tileharvest.errors import SiteError
from tileharvest.renderers.bounds import read_json
from tileharvest.renderers.site import fetch_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileharvest.renderers.site import Fetch

Spot: TypeAlias = tuple[float, float]
"""East and south, in blocks."""
_EDGE: Final = 29_000_000
"""Blocks from a world's origin within which markers count. squaremap marks the world's border as well, by
default 29,999,984 blocks away."""
_MOST_MARKER_LAYERS: Final = 20


async def marked_places(fetch: Fetch, url: str) -> list[Spot]:
    """Returns the places that a file of markers names, and none if there is no such file.

    Pl3xMap's file lists its layers of markers by their keys, each of which has a file of its own.
    """
    content = await _read(fetch, url)
    places = list(spots(content))
    for one in content[:_MOST_MARKER_LAYERS] if isinstance(content, list) else ():
        if isinstance(one, dict) and isinstance(key := one.get("key"), str):
            places += spots(await _read(fetch, f"{url.removesuffix('.json')}/{quote(key)}.json"))
    return places


async def _read(fetch: Fetch, url: str) -> Any:
    """Returns the content of a file, or None if it cannot be read."""
    with suppress(SiteError, msgspec.DecodeError, ValueError, RecursionError):
        answer = await fetch_config(fetch, url)
        return None if answer is None else read_json(answer.body)
    return None


def spots(value: Any) -> Iterator[Spot]:
    """Yields all places within the content of a file of markers.

    Renderers write markers in different forms. But all of them write a place as an object with `x` and `z`,
    and Dynmap writes the corners of an area as one list of each.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            x, z = one.get("x"), one.get("z")
            pairs = zip(x, z, strict=False) if isinstance(x, list) and isinstance(z, list) else [(x, z)]
            for east, south in pairs:
                if _is_within(east) and _is_within(south):
                    yield east, south
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _is_within(number: Any) -> TypeGuard[float]:
    return isinstance(number, (int, float)) and abs(number) <= _EDGE
