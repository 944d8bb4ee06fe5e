"""The verdict: what a server's answer means for a tile. Pure.

The table in docs/outcomes.md has the rules. They are decided here and nowhere else.
"""

from __future__ import annotations

import hashlib
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from tileharvest.errors import counted
from tileharvest.tiles.images import MOST_BYTES, identify
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from tileharvest.tiles.layers import Size

OK: Final = 200
"""The status of an answer with a tile. To look up `HTTPStatus.OK` takes as long as a call."""
GONE_STATUSES: Final = frozenset({404, 410})
HEAD_REFUSED: Final = frozenset({405, 501})
_DENIED: Final = GONE_STATUSES | {403}
PASSING: Final = frozenset({408, 429}) | (frozenset(range(500, 600)) - HEAD_REFUSED)
"""The statuses after which the same request may get another answer later: 408, 429 and a server's own
failures."""

TOO_MANY: Final = 429
REFUSED: Final = frozenset({403, TOO_MANY})
"""The statuses with which a host answers if it is asked too often. 403 may mean something else."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The parts of a server's answer on which a verdict rests."""

    status: int
    validator: Validator = Validator()
    length: int | None = None
    """For HEAD the Content-Length in bytes, or None if there is none; for GET the number of bytes that
    came."""
    body: bytes = b""
    location: str | None = None
    """The address to which a redirect leads, as the server wrote it."""
    retry_after: str | None = None
    """When the server may be asked again, as it wrote it; `retry_after` reads it."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may get another answer later. A 403 that says when is a limit."""
        return self.status in PASSING or (self.status == 403 and self.retry_after is not None)

    @property
    def phrase(self) -> str:
        """The status in words, such as `503 Service Unavailable`."""
        known = self.status in HTTPStatus.__members__.values()
        return f"{self.status} {HTTPStatus(self.status).phrase}" if known else str(self.status)


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a tile with what recording it needs."""

    outcome: Outcome
    image: Image | None = None
    """The image of the new version; given exactly for `add`, `upd` and `rep`."""
    validator: Validator | None = None
    """The validator of the answer to GET; given with an image and for `nMod`."""
    reason: str | None = None
    """For a `fail` the reason, in a line for a person."""


class HeadSupport:
    """What one harvest has learnt of a host's answers to HEAD.

    A host that refuses HEAD should answer 405, or 501. Some answer 403 or 404 instead. So until the host has
    shown that its answers can be relied on, such an answer about a tile that should exist makes HEAD suspect:
    tiles are asked by GET until the answer to a GET for the same tile has come.
    """

    def __init__(self) -> None:
        self.is_refused = False
        """Whether the host refuses HEAD for certain."""
        self.suspect = ""
        """The address of the tile for which it may have refused HEAD. Empty if it is not suspect."""
        self.is_answered = False
        """Whether the host answers HEAD for certain, so that no answer shows anything new."""

    @property
    def is_avoided(self) -> bool:
        """Whether everything is asked by GET."""
        return self.is_refused or bool(self.suspect)

    def doubts(self, status: int, url: str, *, is_expected: bool) -> bool:
        """Takes the status of an answer to HEAD. Returns whether the tile at the address must be asked again.

        `is_expected` says that the tile is known to exist, or that nothing is known of tiles like it.
        """
        if status == OK:
            self._settle(is_refused=self.is_refused)
            return False
        if status in HEAD_REFUSED:
            self._settle(is_refused=True)
        elif is_expected and status in _DENIED and not (self.is_answered or self.is_refused):
            self.suspect = self.suspect or url
        return self.is_avoided

    def learn(self, status: int, url: str) -> None:
        """Takes the status of the answer to a GET."""
        if url == self.suspect:
            self.suspect = ""
            if status in (OK, HTTPStatus.NOT_MODIFIED, *GONE_STATUSES):
                self._settle(is_refused=status not in GONE_STATUSES)

    def _settle(self, *, is_refused: bool) -> None:
        self.is_refused, self.is_answered, self.suspect = is_refused, not is_refused, ""


def unless_blank(answer: Answer, blank: Collection[str]) -> Answer:
    """Returns the answer, or 404 if it has one of the images that stand for a missing tile. `blank` holds
    their sha1."""
    if not blank or not answer.body:
        return answer
    return Answer(404) if hashlib.sha1(answer.body, usedforsecurity=False).hexdigest() in blank else answer


def settled_by_head(
    answers: Mapping[int, Answer | Exception], versions: Mapping[int, Version], heads: int
) -> dict[Outcome, int]:
    """Judges a block of answers to HEAD, as far as they are of the usual kinds. Returns the masks of the
    tiles that are unchanged, and of the places where nothing is and nothing was known.

    `judge_head` says the same of each of these, and judges the others. Answers and latest versions are by the
    bit of the tile; `heads` are the tiles that were asked by HEAD.
    """
    unchanged = nothing = 0
    for bit, answer in answers.items():
        if isinstance(answer, Exception) or not heads >> bit & 1:
            continue
        if answer.status == OK:
            if _is_of(answer, versions.get(bit)):
                unchanged |= 1 << bit
        elif answer.status in GONE_STATUSES and bit not in versions:
            nothing |= 1 << bit
    settled = {}
    if unchanged:
        settled[Outcome.IGNORED] = unchanged
    if nothing:
        settled[Outcome.NOTHING] = nothing
    return settled


def judge_head(answer: Answer, latest: Version | None) -> Verdict | None:
    """Judges the answer to a HEAD, given the tile's latest version. Returns None if a GET must follow."""
    if answer.status in GONE_STATUSES:
        return Verdict(_missing(latest))
    if answer.status != OK:
        return Verdict(Outcome.FAILED, reason=answer.phrase)
    return Verdict(Outcome.IGNORED) if _is_of(answer, latest) else None


def _is_of(answer: Answer, latest: Version | None) -> bool:
    """Returns whether an answer to HEAD describes the bytes of the version.

    The ETags decide; whether they are weak or strong does not matter. Without an ETag, Last-Modified and
    Content-Length decide together. An answer with neither proves nothing.
    """
    if latest is None or latest.image is None:
        return False
    seen, stored = answer.validator, latest.validator
    if seen.etag is not None:
        return seen.etag == stored.etag or seen.entity == stored.entity
    return (
        stored.last_modified is not None
        and seen.last_modified == stored.last_modified
        and answer.length == latest.image.size
    )


def judge_existence(answer: Answer, *, by_head: bool) -> Verdict | None:
    """Judges the answer to a HEAD or GET for a tile that is not kept. The outcome is `ign` if the tile
    exists. Returns None if a GET must follow: an answer to HEAD without a validator may describe what a
    server sends in place of missing tiles, which only the bytes can show."""
    if by_head and answer.status == OK and answer.validator == Validator():
        return None
    return judge_head(answer, None) or Verdict(Outcome.IGNORED)


def judge_get(
    answer: Answer,
    latest: Version | None,
    today: date,
    tile_size: Size | None = None,
    most_bytes: int = MOST_BYTES,
) -> Verdict:
    """Judges the answer to a GET, given the tile's latest version. `today` is the harvest's day; `tile_size`
    and `most_bytes` are those of `identify`."""
    if answer.status in GONE_STATUSES:
        return Verdict(_missing(latest))
    if answer.status == HTTPStatus.NOT_MODIFIED and latest is not None and not latest.gone:
        return Verdict(Outcome.IGNORED)
    if answer.status != OK:
        return Verdict(Outcome.FAILED, reason=answer.phrase)
    try:
        image = identify(answer.body, tile_size, most_bytes)
    except ValueError as error:
        return Verdict(Outcome.FAILED, reason=str(error))
    if latest is None or latest.image is None:
        return Verdict(Outcome.ADDED, image, answer.validator)
    if latest.image.sha1 == image.sha1:
        return Verdict(Outcome.NOT_MODIFIED, validator=answer.validator)
    outcome = Outcome.REPLACED if latest.day == today else Outcome.UPDATED
    return Verdict(outcome, image, answer.validator)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Returns the seconds that a Retry-After header asks for, at least 0, or None if there is none that can
    be read. It is a number of seconds or a date (RFC 9110, section 10.2.3)."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def length_of(value: str | None) -> int | None:
    """Returns the number of bytes that a Content-Length header states. Returns None if there is no header,
    and if it is not a number of at most 19 digits: Python refuses to read thousands of digits."""
    if value is None or len(value) > 19 or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def with_attempts(reason: str, attempts: int) -> str:
    """Returns a failure's reason with the number of attempts."""
    return f"{reason} ({counted(attempts, 'attempt')})"


def conditional_headers(latest: Version | None) -> Mapping[str, str]:
    """Returns the headers that let a server answer 304 if the history has the tile's bytes."""
    return {} if latest is None or latest.gone else latest.validator.conditions


def _missing(latest: Version | None) -> Outcome:
    return Outcome.NOTHING if latest is None or latest.gone else Outcome.GONE
