"""Templates for the addresses of plain tiles, such as `https://{s}.example.net/{z}/{x}/{y}.png`. Pure.

The placeholders are those of Leaflet and OpenLayers. Zoom 0 is one tile, or a few, and each zoom cuts the
tiles of the zoom before into halves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from re import Match, Pattern

DEEPEST: Final = 24
"""The deepest zoom of plain tiles. Its pixels are a centimetre wide, and the coordinates of its tiles still
fit into the 32 bits that a database has for them."""

_HOSTS: Final = re.compile(r"\{(?:s|switch:([^{},]+)[^{}]*|([a-z0-9])-[a-z0-9])\}")
"""A placeholder for one of several hosts: Leaflet's `{s}` for a, b and c, OpenLayers' `{1-4}`, JOSM's
`{switch:a,b}`."""
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAMES: Final = {"z": "z", "zoom": "z", "x": "x", "y": "y", "-y": "up", "q": "q", "quadkey": "q", "r": ""}
"""Our name of each placeholder. `{r}`, which asks for larger images on fine screens, is left out."""
_NUMBER: Final = r"(?:0|-?[1-9]\d{0,8})"
_GROUPS: Final = {"z": r"(?:0|[1-9]\d{0,8})", "x": _NUMBER, "y": _NUMBER, "up": _NUMBER, "q": "[0-3]+"}
_UNRESERVED: Final = "%/:?#[]@!$&'()*+,;=~-._{}"


def is_address(text: str) -> bool:
    """Returns whether a site can be asked at this address."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_template(url: str) -> bool:
    """Returns whether an address is meant as a template."""
    return "{" in url


@dataclass(frozen=True, slots=True)
class Template:
    """The template of plain tiles. Raises ValueError, which names the placeholder that is wrong or missing.

    `{z}`, `{x}` and `{y}` are zoom, column and row, counted down; `{-y}` counts rows upwards from the lowest,
    as TMS does; `{q}` is Bing's quadkey, which is zoom, column and row in one. Of several hosts only the
    first is asked, because all of them are one server to their owner.
    """

    text: str
    form: str = field(init=False, repr=False, compare=False)
    """The text with our names of the placeholders, for `str.format`."""
    _pattern: Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        encoded = quote(self.text, safe=_UNRESERVED)
        form = _PLACEHOLDER.sub(_named, _HOSTS.sub(_first_host, encoded))
        names = set(_PLACEHOLDER.findall(form))
        if not (names >= {"z", "x"} and names & {"y", "up"}) and "q" not in names and names != {"x", "y"}:
            raise ValueError(
                "a template has {z}, {x} and {y}, or {-y} in place of {y}, or {q} alone; that of a canvas has"
                " {x} and {y}"
            )
        if "{" in urlsplit(form).netloc or "{" in _PLACEHOLDER.sub("", form).replace("}", "{"):
            raise ValueError("there is a brace that belongs to no placeholder, or one in the host's name")
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "_pattern", _pattern_of(encoded))

    @property
    def is_flat(self) -> bool:
        """Whether all tiles are of one zoom, which the addresses do not name."""
        return "{z}" not in self.form and "{q}" not in self.form

    @property
    def page(self) -> str:
        """The address of the folder of all tiles, with a slash at its end."""
        return self.form.partition("{")[0].partition("?")[0].rpartition("/")[0] + "/"

    @property
    def ending(self) -> str:
        """The file ending of the tiles, such as `png`. Empty if they have none."""
        name = self.form.partition("?")[0].rpartition("/")[2]
        ending = name.rpartition(".")[2] if "." in name else ""
        return ending if ending.isalnum() else ""

    def url(self, z: int, x: int, y: int) -> str:
        """Returns the address of a tile. Raises ValueError for a tile that no quadkey can name."""
        key = _quadkey(z, x, y) if "{q}" in self.form else ""
        return self.form.format(z=z, x=x, y=y, up=(1 << z) - 1 - y, q=key)

    def place(self, url: str) -> tuple[int, int, int] | None:
        """Returns zoom, column and row of a tile's address at any of the hosts, or None for another address.

        The zoom is 0 if addresses do not name it. If the template has no placeholder in its query, the query
        is ignored.
        """
        if "{" not in self.form.partition("?")[2]:
            url = url.partition("?")[0]
        found = self._pattern.fullmatch(unquote(url))
        if found is None:
            return None
        groups = found.groupdict()
        if "q" in groups:
            return _of_quadkey(groups["q"])
        z = int(groups.get("z", 0))
        y = int(groups["y"]) if "y" in groups else (1 << z) - 1 - int(groups["up"])
        return z, int(groups["x"]), y


def _first_host(found: Match[str]) -> str:
    return found[1] or found[2] or "a"


def _named(found: Match[str]) -> str:
    try:
        name = _NAMES[found[1]]
    except KeyError:
        there = "{z}, {x}, {y}, {-y}, {q} and, in the host's name, {s}"
        raise ValueError(f"'{found[0]}' is not a placeholder; there are {there}") from None
    return name and f"{{{name}}}"


def _pattern_of(encoded: str) -> Pattern[str]:
    """Returns the pattern of whole addresses of a checked template, in which nothing is percent-encoded.

    The query is part of it only if it has placeholders.
    """
    path, _, query = encoded.partition("?")
    parts, named = [], set()
    for part in re.split(r"(\{[^{}]*\})", encoded if "{" in query else path):
        if _HOSTS.fullmatch(part):
            parts.append("[^/?#]+")
        elif not part.startswith("{"):
            parts.append(re.escape(unquote(part)))
        elif (name := _NAMES[part[1:-1]]) in named:
            parts.append(f"(?P={name})")
        elif name:
            named.add(name)
            parts.append(f"(?P<{name}>{_GROUPS[name]})")
    return re.compile("".join(parts))


def _quadkey(z: int, x: int, y: int) -> str:
    """Returns the quadkey: for each zoom a digit, the column's bit plus twice the row's bit.

    Source: "Bing Maps Tile System". Raises ValueError for a tile outside of the world.
    """
    side = 1 << z
    if z < 1 or not (0 <= x < side and 0 <= y < side):
        raise ValueError(f"column {x} and row {y} of zoom {z} have no quadkey")
    return "".join(str((x >> bit & 1) + 2 * (y >> bit & 1)) for bit in range(z - 1, -1, -1))


def _of_quadkey(key: str) -> tuple[int, int, int]:
    columns = "".join(str(int(digit) & 1) for digit in key)
    rows = "".join(str(int(digit) >> 1) for digit in key)
    return len(key), int(columns, 2), int(rows, 2)
