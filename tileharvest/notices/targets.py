"""Where notices go: Apprise's addresses, with what is secret in them filled in from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SECRET: Final = re.compile(r"\$\{(?P<file>file:)?(?P<name>[^{}]+)\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """An address that nothing but its scheme is ever shown of."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """Such as `tgram://...`."""
        scheme = _SCHEME.match(self.url)
        return f"{scheme[0].lower()}://..." if scheme else "an address without a scheme"


class MissingSecretError(ValueError):
    """What stands in an address for a secret leads to none; `str(error)` names it, and no value."""


def parse_target(text: str, environment: Mapping[str, str]) -> Target:
    """The address with `${NAME}` replaced by the environment variable, and `${file:/run/secrets/x}` by what
    the file holds, without space at its ends.

    They are written as a part of an address must be, so that a password may hold any sign; but where one is
    all of the text it is taken for a whole address. Raises MissingSecretError.
    """
    whole = _SECRET.fullmatch(text.strip())
    if whole is not None:
        return Target(_secret(whole, environment))
    return Target(_SECRET.sub(lambda found: quote(_secret(found, environment), safe=""), text.strip()))


def parse_targets(
    texts: Iterable[str], environment: Mapping[str, str]
) -> tuple[list[Target], list[MissingSecretError]]:
    """Those that are complete, and what is missing of the others."""
    targets, missing = [], []
    for text in texts:
        try:
            targets.append(parse_target(text, environment))
        except MissingSecretError as error:
            missing.append(error)
    return targets, missing


def _secret(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name = found["name"]
    if not found["file"]:
        value = environment.get(name, "")
        if not value:
            raise MissingSecretError(f"the environment variable {name} is not set")
        return value
    try:
        value = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise MissingSecretError(f"the file {name} cannot be read ({reason})") from None
    if not value:
        raise MissingSecretError(f"the file {name} is empty")
    return value
