"""The verdict: what a server's answer means for a tile. Pure, and the only place that decides it.

The rules are the outcome table of the documentation (docs/outcomes.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from tileharvest.tiles.images import NoImageError, identify
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

GONE_STATUSES: Final = frozenset({404, 410})
HEAD_REFUSED: Final = frozenset({405, 501})
_PASSING_STATUSES: Final = frozenset({408, 429}) | (frozenset(range(500, 600)) - HEAD_REFUSED)


class NextStep(Enum):
    """What a HEAD calls for when it does not settle the outcome."""

    GET = "get"
    GET_IF_NONE_MATCH = "get-if-none-match"
    """HEAD is refused; a conditional GET asks the same question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What of a server's answer the verdict is made of."""

    status: int
    validator: Validator = field(default_factory=Validator)
    length: int | None = None
    """Content-Length in bytes, where given."""
    body: bytes = b""

    @property
    def phrase(self) -> str:
        """The status in words, such as `503 Service Unavailable`."""
        known = self.status in HTTPStatus.__members__.values()
        return f"{self.status} {HTTPStatus(self.status).phrase}" if known else str(self.status)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with what it is made of; the fields are those of `items.TileResult`."""

    outcome: Outcome
    image: Image | None = None
    validator: Validator | None = None
    reason: str | None = None


def judge_head(answer: Answer, latest: Version | None) -> Verdict | NextStep:
    """What a HEAD's answer says, given the tile's latest version."""
    if answer.status in GONE_STATUSES:
        return Verdict(_missing(latest))
    if answer.status in HEAD_REFUSED:
        return NextStep.GET_IF_NONE_MATCH
    if answer.status != HTTPStatus.OK:
        return Verdict(Outcome.FAILED, reason=answer.phrase)
    return Verdict(Outcome.IGNORED) if is_unchanged(answer, latest) else NextStep.GET


def judge_existence(answer: Answer, *, by_head: bool) -> Verdict | NextStep:
    """What an answer to HEAD or GET says about a tile that is not kept: `ign` if it is there."""
    if answer.status in GONE_STATUSES:
        return Verdict(Outcome.NOTHING)
    if by_head and answer.status in HEAD_REFUSED:
        return NextStep.GET_IF_NONE_MATCH
    if answer.status != HTTPStatus.OK:
        return Verdict(Outcome.FAILED, reason=answer.phrase)
    return Verdict(Outcome.IGNORED)


def judge_get(answer: Answer, latest: Version | None, today: date) -> Verdict:
    """What a GET's answer says, given the tile's latest version. `today` is the harvest's day."""
    if answer.status in GONE_STATUSES:
        return Verdict(_missing(latest))
    if answer.status == HTTPStatus.NOT_MODIFIED and latest is not None and not latest.gone:
        return Verdict(Outcome.IGNORED)
    if answer.status != HTTPStatus.OK:
        return Verdict(Outcome.FAILED, reason=answer.phrase)
    try:
        image = identify(answer.body)
    except NoImageError as error:
        return Verdict(Outcome.FAILED, reason=str(error))
    if latest is None or latest.image is None:
        return Verdict(Outcome.ADDED, image, answer.validator)
    if latest.image.sha1 == image.sha1:
        return Verdict(Outcome.NOT_MODIFIED, validator=answer.validator)
    outcome = Outcome.REPLACED if latest.day == today else Outcome.UPDATED
    return Verdict(outcome, image, answer.validator)


def is_unchanged(answer: Answer, latest: Version | None) -> bool:
    """Whether the answer to a HEAD describes the bytes that the history has.

    By ETag, its strength aside; without one by Last-Modified and Content-Length together. An answer with
    neither proves nothing.
    """
    if latest is None or latest.image is None:
        return False
    stored = latest.validator
    if answer.validator.entity is not None and stored.entity is not None:
        return answer.validator.entity == stored.entity
    if answer.validator.entity is not None:
        return False
    return (
        stored.last_modified is not None
        and answer.validator.last_modified == stored.last_modified
        and answer.length == latest.image.size
    )


def may_pass(status: int) -> bool:
    """Whether asking again later may give another answer: 408, 429, and a server's own failures."""
    return status in _PASSING_STATUSES


def pause_before(attempt: int, base: float, retry_after: float | None) -> float:
    """Seconds to wait before an attempt (the second is 2): the base, doubled each time, or longer where
    the server asks for it."""
    return max(base * float(1 << (attempt - 2)), retry_after or 0.0)


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, at least 0; None without one that can be read.

    Both forms of RFC 9110, section 10.2.3: seconds, or a date.
    """
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None


def with_attempts(reason: str, attempts: int) -> str:
    """A failure's reason with how often it was met."""
    return f"{reason} ({attempts} attempt{'s' if attempts > 1 else ''})"


def conditional_headers(latest: Version | None) -> Mapping[str, str]:
    """The headers of a GET that need not be answered with bytes that the history has."""
    if latest is None or latest.gone:
        return {}
    stored = latest.validator
    if stored.etag is not None:
        return {"If-None-Match": stored.etag}
    return {} if stored.last_modified is None else {"If-Modified-Since": stored.last_modified}


def _missing(latest: Version | None) -> Outcome:
    return Outcome.NOTHING if latest is None or latest.gone else Outcome.GONE
