"""Trust: whether a tile's answer vouches for the tiles below it, and what is remembered of it for the next
walk."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tileharvest.tiles.results import Step
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import seconds_of

_ABSENT: Final = Validator()
"""The validator of a tile that is not there, and of a server that sends none."""
_NOTHING_NEW: Final = Step()
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+")


class RememberedValidator(msgspec.Struct, frozen=True, gc=False):
    """The remembered part of a tile's last answer."""

    etag: str | None
    """The ETag as the server wrote it."""
    last_modified: str | None
    """The Last-Modified as the server wrote it."""
    is_trusted: bool
    """Whether the harvest that saw the answer has asked everything below the tile without a failure."""

    def is_of(self, seen: Validator) -> bool:
        """Returns whether an answer that was seen now is of the same state as the remembered one.

        ETag and date must both be the same. Dates are compared as they are written, so that an older date is
        another state, too. A mark without a date is never of the same state: an ETag may be made from the
        bytes, and these can be the same although something below the tile has changed. The answer may lack
        the date, because a 304 need not repeat it (RFC 9110, section 15.4.5). Then the ETag must hold the
        date.
        """
        if self.last_modified is None:
            return False
        if self.etag != seen.etag and Validator(self.etag).entity != seen.entity:
            return False
        return seen.last_modified == self.last_modified or (
            seen.last_modified is None and _holds_date(self.etag, self.last_modified)
        )


def remember(mark: RememberedValidator | None, seen: Validator, *, is_late: bool) -> Step:
    """Returns what to record of an answer for a tile below which everything is asked.

    An answer that equals a mark without trust is recorded, too, because a harvest trusts what it has seen
    itself. For a tile that is missing pass an empty validator: it makes the history forget the mark.

    A late answer (`Asked.late`) would vouch for changes below it that nobody has seen. The older mark is
    therefore kept. If the late answer is of another state, the mark is doubted. Otherwise the old state,
    should the site ever put it back, would vouch for what was found below in the meantime.
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
    """Returns whether the ETag holds the date: in seconds, as nginx writes it, or in microseconds, as Apache
    does.

    If so, equal ETags mean equal dates.
    """
    seconds = seconds_of(date)
    numbers = [int(digits, 16) for digits in _HEXADECIMAL.findall(etag or "")]
    return any(seconds in (number, number // 1_000_000) for number in numbers)
