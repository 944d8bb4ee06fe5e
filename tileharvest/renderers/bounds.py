"""The bounds of what a site may say of itself. Each file of a site is read through them.

A value beyond its bounds is refused in one line, which names the key, the value and what was expected.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from reprlib import Repr
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import chompjs
import msgspec
from msgspec import Meta

from tileharvest.errors import printable
from tileharvest.tiles.layers import MOST_NAME, MOST_SIDE, WRITABLE
from tileharvest.tiles.pyramid import MOST_DEPTH

MOST_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a file, as it comes and unpacked."""
MOST_NESTED: Final = 100
"""The most lists and objects, each inside the next. Renderers write less than ten."""
MOST_VALUES: Final = 500_000
"""The most values of a file. A list or an object takes 60 to 230 bytes of memory, even if the file writes it
in two characters."""
MOST_LAYERS: Final = 1000
_MOST_SHOWN: Final = 60
"""The most characters of a value that a line shows."""
_FARTHEST: Final = 2**31 - 1
"""The greatest coordinate in blocks. A world ends after 30 million, and databases on servers have 32 bits for
a coordinate."""

Depth: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_DEPTH)]
Side: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_SIDE)]
"""Pixels along the edge of a tile."""
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Number: TypeAlias = Annotated[float, Meta(ge=-(2.0**63), lt=2.0**63)]
"""A finite number: infinities and NaN are not within these bounds."""
Block: TypeAlias = Annotated[float, Meta(ge=-_FARTHEST, le=_FARTHEST)]
"""A coordinate in blocks."""
Turns: TypeAlias = Annotated[int, Meta(ge=0, le=3)]
Text: TypeAlias = Annotated[str, Meta(max_length=MOST_NAME, pattern=WRITABLE)]
"""A name, a path or a part of an address."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MOST_NAME, pattern=WRITABLE)]
Tag: TypeAlias = Annotated[str, Meta(max_length=256, pattern=WRITABLE)]
"""A text that changes with each render and is a part of addresses."""
_SUFFIX: Final = r"\A(png|jpg|jpeg|webp)\Z"
Suffix: TypeAlias = Annotated[str, Meta(pattern=_SUFFIX)]

_Form = TypeVar("_Form")
_OPENED: Final = re.compile(r"[\[\]{}]")
_STEP: Final = re.compile(r"\.([^.\[\]`]+)|\[(\d+)\]")
_EXPECTED: Final = (
    (f"matching regex {WRITABLE!r}", "without NUL and lone surrogates"),
    (f"matching regex {_SUFFIX!r}", "png, jpg, jpeg or webp"),
)


def read_json(body: bytes) -> Any:
    """Returns the content of a JSON file as plain values.

    Raises `msgspec.DecodeError` if the file is damaged, and ValueError if it is beyond the bounds.
    """
    try:
        text = body.decode("utf-8")
        check_size(text)
        # msgspec would refuse the whole file for one lone surrogate. Read by this module, only the layer is
        # refused.
        return json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise msgspec.DecodeError(shown(str(error))) from None


def read_script(text: str, variable: str = "") -> Any:
    """Returns the first value after the name of a variable in a JavaScript file, as plain values. Raises as
    `read_json` does."""
    check_size(text)
    try:
        return chompjs.parse_js_object(text[text.index(variable) + len(variable) :])
    except ValueError as error:
        raise msgspec.DecodeError(shown(str(error))) from None


def check_size(text: str) -> None:
    """Raises ValueError for a text with too many values, or too deeply nested ones.

    The text is not parsed: brackets and commas are counted, also those within strings. That takes a tenth of
    a second for the longest text.
    """
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has {len(text):,} characters, and at most {MOST_BYTES:,} are read")
    values = sum(map(text.count, ",[{\n="))
    if values > MOST_VALUES:
        raise ValueError(f"it has {values:,} values, and at most {MOST_VALUES:,} are read")
    depth = 0
    for sign in _OPENED.findall(text):
        depth = depth + 1 if sign in "[{" else max(0, depth - 1)
        if depth > MOST_NESTED:
            raise ValueError(f"it is nested more than {MOST_NESTED} deep")


def converted(value: Any, form: type[_Form]) -> _Form:
    """Returns plain values as an object of the class `form`. Raises ValueError, which names the key, its
    value and what was expected."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        expected, _, where = str(error).partition(" - at `$")
    for pattern, words in _EXPECTED:
        expected = expected.replace(pattern, words)
    key, found = where.rstrip("`").lstrip("."), value
    its = printable(key, _MOST_SHOWN)
    with suppress(LookupError, TypeError):
        if isinstance(value, dict) and (names := [name for name in value if key.startswith(name)]):
            longest = max(names, key=len)
            found, where = value[longest], key[len(longest) :]
        for name, place in _STEP.findall(where):
            found = found[int(place)] if place else found[name]
        if key and not key.endswith("[...]"):
            raise ValueError(f"{its} is {shown(found)}: {expected[0].lower()}{expected[1:]}")
    raise ValueError(f"{its}: {expected}" if key else expected)


def flattened(value: Any, *keys: str) -> Any:
    """Returns an object whose objects at these keys are spread into it: `lowres: {lodCount: 3}` becomes
    `lowres.lodCount: 3`."""
    if not isinstance(value, dict):
        return value
    inner = {key: value[key] for key in keys if isinstance(value.get(key), dict)}
    outer = {key: one for key, one in value.items() if key not in inner}
    return outer | {f"{key}.{name}": one for key, its in inner.items() for name, one in its.items()}


_BRIEF: Final = Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _MOST_SHOWN
_BRIEF.maxlevel = 2


def shown(value: Any) -> str:
    """Returns a value of a site in at most 60 printable characters, for a line."""
    return printable(value if isinstance(value, str) else _BRIEF.repr(value), _MOST_SHOWN)
