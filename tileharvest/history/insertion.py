"""The insertion of a day into the versions of one tile: which of them come, go and move. Pure.

A history has a version for each day on which a tile was other than before. A day that comes in later is
compared with the version before it, as a harvest does. The next known state of the tile is compared anew,
because it may now be the same as that of the inserted day, or differ from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from datetime import date

    from tileharvest.tiles.versions import Image

_NOTHING = Validator()


class Recorded(NamedTuple):
    """A version as the history has it."""

    id: int
    version: Version
    harvest: int
    """The harvest that recorded it last."""


class Claim(NamedTuple):
    """A later harvest that asked for every tile. A tile without a version of it was as before on its day."""

    harvest: int
    day: date


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The rows that the history has of one tile, seen from the inserted day."""

    before: Recorded | None = None
    """The last version of an earlier day."""
    at: Recorded | None = None
    """The version of the same day. It is replaced if the same source has recorded it."""
    after: Recorded | None = None
    """The first version of a later day."""
    claim: Claim | None = None
    """The first harvest of a later day that asked for every tile."""
    harvest: int | None = None
    """The last harvest with a result for the tile."""
    outcome: Outcome | None = None
    """The result of that harvest for the tile."""
    is_later: bool = False
    """Whether that harvest is of a later day."""
    is_taken: bool = False
    """Whether another source, or a harvest, has recorded the version of the same day. It is not replaced."""

    @property
    def image(self) -> Image | None:
        """The image that the history has shown on the day until now."""
        return _image(self.at or self.before)

    @property
    def has_followed(self) -> bool:
        """Whether `after` is the next known state of the tile. Otherwise `claim` is, if there is one."""
        return self.after is not None and (self.claim is None or self.after.version.day <= self.claim.day)


@dataclass(slots=True)
class Insertion:
    """The changes of one tile's versions by an insertion."""

    outcome: Outcome | None = None
    """The outcome of the inserted day, or None if the tile was not there and not known."""
    deleted: list[Recorded] = field(default_factory=list)
    moved: Recorded | None = None
    """A later version that moves to the inserted day, because the tile had its image then already."""
    put: Version | None = None
    """A new version of the inserted day."""
    restored: tuple[Version, Claim] | None = None
    """A new version of a later day on which the tile was again as before the inserted day."""
    renewed: tuple[Recorded, Validator] | None = None
    """A version, and the validator that replaces its own."""
    recount: tuple[int, Outcome | None, Outcome | None] | None = None
    """A later harvest whose outcome for the tile changes, with the old and the new outcome.

    None stands for no outcome. The old one is `ign` if it is only known that the tile was unchanged."""


def inserted(image: Image | None, validator: Validator, day: date, around: Surroundings) -> Insertion:
    """Returns what changes if a tile had this image on that day. None says that the tile was not there.

    If the validator is empty, equal bytes count as `ign`.
    """
    old = _image(around.before)
    change = Insertion(_outcome(old, image, _validator(around.before), validator))
    is_put = _differ(old, image)
    after = around.after if around.has_followed else None
    # No later harvest has seen the tile before its next version, so this is the latest validator.
    is_latest = around.claim is None or after is not None
    if after is not None and not _differ(image, after.version.image):
        _take_back(change, around, after, validator, is_put=is_put)
    else:
        if is_put and around.at is not None and not _differ(around.image, image):
            change.renewed = (around.at, validator) if is_latest else None
        else:
            change.put = Version(day, image, validator) if is_put else None
            change.deleted = [] if around.at is None else [around.at]
        if after is None and around.claim is not None and _differ(image, around.image):
            valid = around.at or around.before
            state = Version(around.claim.day, around.image, _validator(valid))
            change.restored = state, around.claim
        elif change.outcome is Outcome.NOT_MODIFIED and around.before and is_latest:
            change.renewed = around.before, validator
    change.recount = _recount(around, after, image, validator)
    return change


def _take_back(
    change: Insertion, around: Surroundings, after: Recorded, validator: Validator, *, is_put: bool
) -> None:
    """Makes one version of the inserted one and the equal one that follows it."""
    latest = after.version.validator
    if around.at is not None:
        change.deleted.append(around.at)
    if is_put:
        change.moved = after
        if latest == _NOTHING != validator:
            change.renewed = after, validator
        return
    change.deleted.append(after)
    if around.before is not None and latest != _NOTHING:
        change.renewed = around.before, latest


def _recount(
    around: Surroundings, after: Recorded | None, image: Image | None, validator: Validator
) -> tuple[int, Outcome | None, Outcome | None] | None:
    if after is not None:
        harvest, found, latest = after.harvest, after.version.image, after.version.validator
    elif around.claim is not None:
        harvest, found, latest = around.claim.harvest, around.image, _validator(around.at or around.before)
    else:
        return None
    before = _outcome(around.image, found, _NOTHING, _NOTHING)
    now = _outcome(image, found, validator, latest)
    is_same = before is now or {before, now} == {Outcome.IGNORED, Outcome.NOT_MODIFIED}
    return None if is_same else (harvest, before, now)


def _outcome(
    before: Image | None, now: Image | None, stored: Validator, validator: Validator
) -> Outcome | None:
    if now is None:
        return None if before is None else Outcome.GONE
    if before is None:
        return Outcome.ADDED
    if _differ(before, now):
        return Outcome.UPDATED
    is_other = validator != _NOTHING and not _agree(stored, validator)
    return Outcome.NOT_MODIFIED if is_other else Outcome.IGNORED


def _agree(stored: Validator, seen: Validator) -> bool:
    if seen.etag is not None:
        return seen.entity == stored.entity
    return seen.last_modified == stored.last_modified


def _differ(one: Image | None, other: Image | None) -> bool:
    return (one and one.sha1) != (other and other.sha1)


def _image(recorded: Recorded | None) -> Image | None:
    return None if recorded is None else recorded.version.image


def _validator(recorded: Recorded | None) -> Validator:
    return _NOTHING if recorded is None else recorded.version.validator
