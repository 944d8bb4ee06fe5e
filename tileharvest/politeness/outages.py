"""Outages and refusals: when a host that does not answer, or refuses more, is doubted, probed, asked more
slowly, and given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tileharvest.tiles.verdict import Answer

SLOWER: Final = 2.0
"""How many times longer the time between two requests becomes after each refusal."""
_SHARE: Final = 0.1
"""The share of requests that a host may refuse before it is asked more slowly."""
MOST_REFUSALS: Final = 5
"""The rests in a row that may bring no good answer. Then a slower pace does not help."""


def answer_in_words(answer: Answer | Exception) -> str:
    """Returns the status of an answer, or why a download brought none. If the system has refused the
    connection, that is the cause of the error that the download handler raises."""
    if isinstance(answer, Answer):
        return answer.phrase
    if isinstance(answer.__cause__, ConnectionRefusedError):
        return "connection refused"
    return str(answer) or type(answer).__name__


@dataclass(frozen=True, slots=True)
class OutageLimits:
    """How long a host without answers is tried. Raises ValueError for limits that would never probe, or would
    probe without a pause."""

    failures: int
    """The failures in a row, of any requests, after which a host is doubted."""
    pause: float
    longest_pause: float
    """Seconds before the first probe, and at most."""
    patience: float
    """Seconds after which a host that does not answer is given up."""

    def __post_init__(self) -> None:
        if self.failures < 1 or not 0 < self.pause <= self.longest_pause or not self.patience >= 0:
            raise ValueError(f"{self} cannot be")


class HostHealth:
    """Whether one host is up, and whether it limits us, as far as its answers show.

    After some failures in a row a host is doubted: from then on it is probed, and not asked for anything
    else. If the first probe is answered, not the host has failed but the requests: then the next doubt needs
    twice as many failures.

    A refusal counts as a failure if the host has answered something well before. Many in a row may be a rate
    limit. The first probe then asks for what was answered well: if that is refused, too, it is a limit. After
    each limit the host is asked more slowly. So it is if it refuses a tenth of its requests, and either says
    by 429 that this is a limit or was found to limit us before.

    `requests` are those since the crawl began, and `seconds` its seconds of work.
    """

    def __init__(self, limits: OutageLimits) -> None:
        self._limits = limits
        self._failures_to_doubt = limits.failures
        self._failures = self._rests = self._refused = 0
        """Failures in a row, rests after refusals without a good answer in between, and requests that were
        refused since the pace last changed."""
        self._paced = (0, 0.0)
        """The requests and seconds when the pace last changed."""
        self.spacing = 0.0
        """The least seconds between two requests. It is 0 until the host refuses more."""

    def failed(self, *, is_refusal: bool = False) -> bool:
        """Notes that a request got no usable answer. Returns whether the host is to be doubted."""
        self._failures += 1
        self._refused += is_refusal
        return self._failures >= self._failures_to_doubt

    def answered(self) -> None:
        """Notes that a request got a good answer. This does not end a doubt, because the request may have
        started before it."""
        self._failures = self._rests = 0

    def dispelled(self, *, was_down: bool) -> None:
        """Ends the doubt: a probe was answered. The host `was_down` unless that was the first probe."""
        self._failures = 0
        if not was_down:
            self._failures_to_doubt *= 2

    def refuses_many(self, requests: int) -> bool:
        """Returns whether the host refuses too many of the requests at its present pace."""
        made = requests - self._paced[0]
        return self._refused >= self._limits.failures and self._refused > _SHARE * made

    def may_limit(self, attempt: int) -> bool:
        """Returns whether a 403 to this attempt may say something of the host, and not of what was asked: the
        host was found to limit us, or nobody knows so far. The first attempt is 1."""
        is_trusted = self._failures_to_doubt > self._limits.failures
        return self.spacing > 0 or (attempt == 1 and not is_trusted)

    def slow_down(self, requests: int, seconds: float) -> bool:
        """Makes the host's pace slower than it was since it last changed. Returns False if a slower pace does
        not help."""
        made, took = requests - self._paced[0], seconds - self._paced[1]
        self._paced, self._refused = (requests, seconds), 0
        self.spacing = SLOWER * max(self.spacing, took / max(1, made))
        self._rests += 1
        return self._rests <= MOST_REFUSALS
