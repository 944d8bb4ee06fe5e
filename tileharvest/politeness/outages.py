"""Outages: when a host that does not answer is doubted, probed and given up. Pure."""

from __future__ import annotations

from dataclasses import dataclass


def no_answer_in_words(error: BaseException) -> str:
    """Says for a person why a download brought no answer. The cause of what the download handler raises is
    the system's error, where there is one."""
    if isinstance(error.__cause__, ConnectionRefusedError):
        return "connection refused"
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class OutageLimits:
    """How much is tried. Raises ValueError for limits that would never probe, or probe without a pause."""

    failures: int
    """In a row, of whatever requests, after which a host is doubted."""
    pause: float
    """Seconds before the first probe; each further pause is twice as long ..."""
    longest_pause: float
    """... but not longer than this."""
    patience: float
    """Seconds after which a host that does not answer is given up."""

    def __post_init__(self) -> None:
        if self.failures < 1 or not 0 < self.pause <= self.longest_pause or not self.patience >= 0:
            raise ValueError(f"{self} cannot be")


class HostHealth:
    """What is believed of one host. It is up at first; doubted after some failures in a row, from when on it
    is to be probed and not asked for anything else; and down once a probe has got no answer either.

    Times are seconds on one clock of the caller's. A doubt that the first probe dispels means that it is not
    the host that fails, but what it was asked for: then the next one needs twice as many failures.
    """

    def __init__(self, limits: OutageLimits) -> None:
        self._limits = limits
        self._failures_to_doubt = limits.failures
        self._failures = 0
        self._since = 0.0
        self._is_confirmed = False
        """Whether anything else than the failures in a row speaks for the doubt."""
        self._pause = limits.pause
        self.is_doubted = False
        """Also while it is down."""
        self.is_down = False

    def failed(self, now: float) -> bool:
        """Notes that a request got no usable answer. Returns whether the host is doubted from now on."""
        self._failures += 1
        if self.is_doubted or self._failures < self._failures_to_doubt:
            return False
        self.is_doubted = True
        self._since, self._pause = now, self._limits.pause
        return True

    def answered(self) -> None:
        """Notes that a request got an answer, whichever. It ends no doubt, as the answer may be an old
        one."""
        self._failures = 0

    def next_pause(self, now: float) -> float:
        """Returns the seconds until the next probe is to be made, twice as many each time. The last probe is
        made when patience ends."""
        pause = self.following_pause(now)
        self._pause = min(2 * self._pause, self._limits.longest_pause)
        return pause

    def following_pause(self, now: float) -> float:
        """Returns what `next_pause` would, and changes nothing."""
        left = self._left(now)
        return min(self._pause, left) if left > 0 else self._pause

    def postponed(self, seconds: float) -> None:
        """The host was not asked for so long for other reasons, which is not held against it."""
        self._since += seconds

    def left_to_another(self) -> None:
        """The probe was not made, as another worker makes one. So that one doubts the host, too."""
        self._is_confirmed = True

    def probe_failed(self, now: float) -> bool:
        """Notes that a probe got no usable answer. Returns whether the host is to be given up."""
        self.is_down = self._is_confirmed = True
        return self._left(now) <= 0

    def probe_answered(self, now: float) -> float:
        """The host is up. Returns for how many seconds it was doubted."""
        if not self._is_confirmed:
            self._failures_to_doubt *= 2
        self.is_doubted = self.is_down = self._is_confirmed = False
        self._failures = 0
        return now - self._since

    def _left(self, now: float) -> float:
        """Returns the seconds of patience that are left."""
        return self._since + self._limits.patience - now
