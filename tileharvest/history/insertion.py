"""The insertion of a day into the versions of one tile: which versions the tile has then. Pure.

A history has a version for each day on which a tile was other than before. A day that comes in later is
compared with the version before it, as a harvest does. The next known state of the tile is compared anew,
because it may now be the same as that of the inserted day, or differ from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileharvest.tiles.versions import Image

_NOTHING = Validator()
_NOT_THERE = Version(date.min, None)


class Recorded(NamedTuple):
    """A version, with the harvest that has recorded it last."""

    version: Version
    harvest: int


class Claim(NamedTuple):
    """A later harvest that asked for every tile. A tile without a version of it was as before on its day."""

    harvest: int
    day: date


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the history has of one tile, seen from the inserted day."""

    before: Recorded | None = None
    """The last version of an earlier day."""
    at: Recorded | None = None
    """The version of the same day, which is replaced."""
    after: Recorded | None = None
    """The first version of a later day."""
    claim: Claim | None = None
    """The first harvest of a later day that asked for every tile."""

    @property
    def recorded(self) -> list[Recorded]:
        """The versions among these, in order."""
        return [one for one in (self.before, self.at, self.after) if one is not None]

    @property
    def shown(self) -> Recorded | None:
        """The version that the history has shown on the day until now."""
        return self.at or self.before

    @property
    def has_followed(self) -> bool:
        """Whether `after` is the next known state of the tile. Otherwise `claim` is, if there is one."""
        return self.after is not None and (self.claim is None or self.after.version.day <= self.claim.day)


def inserted(
    image: Image | None, validator: Validator, harvest: int, day: date, around: Surroundings
) -> list[Recorded]:
    """Returns the versions in place of `around.recorded` if a tile had this image on that day. None says that
    the tile was not there.

    `harvest` is that of the inserted day. If a later harvest has seen the tile since, its validators stay.
    """
    before, shown = around.before, around.shown
    claim = None if around.has_followed else around.claim
    if claim is not None:
        seen = next((one for one in (shown, before) if one and not _differ(image, one.version.image)), None)
        validator = validator if seen is None else seen.version.validator
    states = [Recorded(Version(day, image, validator), harvest)]
    if claim is not None:
        again = Version(claim.day, None) if shown is None else replace(shown.version, day=claim.day)
        states.append(Recorded(again, claim.harvest))
    if around.after is not None:
        states.append(around.after)
    return _following(before, states)


def outcome_of(image: Image | None, validator: Validator, before: Recorded | None) -> Outcome | None:
    """Returns the outcome of a day on which the tile had this image, or None if it was not there and not
    known. If the validator is empty, equal bytes count as `ign`."""
    old = None if before is None else before.version.image
    if image is None:
        return None if old is None else Outcome.GONE
    if old is None:
        return Outcome.ADDED
    if _differ(old, image):
        return Outcome.UPDATED
    stored = _NOTHING if before is None else before.version.validator
    is_other = validator != _NOTHING and not _agree(stored, validator)
    return Outcome.NOT_MODIFIED if is_other else Outcome.IGNORED


def _following(before: Recorded | None, states: Iterable[Recorded]) -> list[Recorded]:
    """Returns the version before and those of the states that differ from the one before them. Of equal ones
    the latest validator is kept."""
    kept = [] if before is None else [before]
    for one in states:
        last = kept[-1].version if kept else _NOT_THERE
        if _differ(last.image, one.version.image):
            kept.append(one)
        elif kept and one.version.validator != _NOTHING:
            kept[-1] = kept[-1]._replace(version=replace(last, validator=one.version.validator))
    return kept


def _agree(stored: Validator, seen: Validator) -> bool:
    if seen.etag is not None:
        return seen.entity == stored.entity
    return seen.last_modified == stored.last_modified


def _differ(one: Image | None, other: Image | None) -> bool:
    return (one and one.sha1) != (other and other.sha1)
