"""Trust: what a tile's answer says of what lies below it, and what of it is remembered for the next walk."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import seconds_of

_ABSENT: Final = Validator()
"""What is said of a tile that is not there, and by a server that says nothing."""
_NOTHING_NEW: Final = Step()
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered of a tile's last answer."""

    etag: str | None
    """As the server wrote it."""
    last_modified: str | None
    """As the server wrote it."""
    is_trusted: bool
    """Whether the harvest that saw it has finished everything below without a failure."""

    def is_of(self, seen: Validator) -> bool:
        """Returns whether this and an answer seen now are of the same state.

        Dates are compared as they are written: one that is put back is another state. Without a date it never
        is, as an ETag may be made from the bytes, and they can be the same although something below has
        changed. But a 304 need not repeat the date (RFC 9110, section 15.4.5): none is missed where the ETag
        holds it.
        """
        if self.last_modified is None:
            return False
        if self.etag != seen.etag and Validator(self.etag).entity != seen.entity:
            return False
        return seen.last_modified == self.last_modified or (
            seen.last_modified is None and _holds_date(self.etag, self.last_modified)
        )


def vouches(mark: Mark | None, seen: Validator) -> bool:
    """Returns whether a tile with this answer, and the outcome `ign`, proves that nothing below it has
    changed."""
    return mark is not None and mark.is_trusted and mark.is_of(seen)


def remember(mark: Mark | None, seen: Validator, *, is_late: bool) -> Step:
    """Returns what is to be recorded of an answer to a tile below which all is asked.

    That is so also where only trust is missing: a harvest trusts what it has seen itself. For a tile that is
    missing hand in an empty validator, which makes the history forget what it remembers.

    A late answer (`Asked.late`) would vouch for changes below it that nobody has seen. So the older one is
    kept, and is doubted where it is of another state: were that state put back, it would vouch for what was
    found below in the meantime.
    """
    is_same = mark is not None and mark.is_of(seen)
    if mark is not None and is_same and mark.is_trusted:
        return _NOTHING_NEW
    if seen == _ABSENT:
        is_known = mark is not None and Validator(mark.etag, mark.last_modified) != _ABSENT
        return Step(seen=seen) if is_known else _NOTHING_NEW
    if is_late:
        return Step(doubts=mark is not None and not is_same)
    if mark is not None and is_same:
        # The answer may have left out the date.
        return Step(seen=Validator(seen.etag, mark.last_modified))
    return Step(seen=seen)


def _holds_date(etag: str | None, date: str) -> bool:
    """Says whether the ETag holds the date, in seconds as nginx writes it or in microseconds as Apache does.

    Then equal ETags have equal dates.
    """
    seconds = seconds_of(date)
    numbers = [int(digits, 16) for digits in _HEXADECIMAL.findall(etag or "")]
    return any(seconds in (number, number // 1_000_000) for number in numbers)
