"""Turns what Redis or the way to it says into one line for a person, and knows what may pass."""

from __future__ import annotations

from typing import Final

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - these are the library's own, and no others are meant here
    RedisClusterException,
    RedisError,
    TimeoutError,  # noqa: A004
)

from tileharvest.queue.redis.calls import FORMAT

AFRESH: Final = "start afresh with -a fresh=1"
"""The way out when a queue cannot be used: the history knows what was harvested, so only requests are
made again."""

_PASSING: Final = ("BUSY ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "READONLY ", "TRYAGAIN ")
"""How the server's words begin when it may soon answer otherwise: while another script runs, while it reads
its data, while a replica takes over."""

_LOADING: Final = ("still reads its data ({said})", "run again when it is ready")
_AWAY: Final = ("does not answer ({said})", "see that it runs and can be reached, and run again")
_LOGIN: Final = ("refuses the login ({said})", "correct name and password in REDIS_URL or REDIS_PARAMS")
_PERMISSION: Final = "let an administrator allow it: ~tileharvest:* &tileharvest:* +@all -@admin"
_BY_WORDS: Final = {
    "WRONGPASS": _LOGIN,
    "NOAUTH": _LOGIN,
    "NOPERM": ("does not allow its user something ({said})", _PERMISSION),
    "OOM": ("is out of memory ({said})", "give it more (maxmemory), and run again"),
    "READONLY": ("is a replica that cannot be written ({said})", "name the primary in REDIS_URL"),
    "MISCONF": ("cannot write to its disk ({said})", "free space there, and run again"),
    "LOADING": _LOADING,
    "MASTERDOWN": _AWAY,
    "CLUSTERDOWN": _AWAY,
    "BUSY": ("is kept busy by a script ({said})", "run again later"),
    "MOVED": (
        "is a node of a cluster ({said})",
        "write REDIS_PARAMS = {'redis_cls': 'redis.asyncio.RedisCluster'}",
    ),
}
_OTHER: Final = ("failed ({said})", "run again; Redis must be of version 6 or newer")


def may_pass(error: Exception) -> bool:
    """Whether the same call may succeed a moment later, and be repeated: it was not made, or it bears it."""
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return False
    if isinstance(error, (ConnectionError, TimeoutError, BusyLoadingError, ClusterDownError)):
        return "certificate" not in str(error).lower()
    return _words(error).startswith(_PASSING) or isinstance(error, RedisClusterException)


def line(error: Exception, queue: str, said: str) -> str:
    """For a person. `queue` is where the queue is, `said` the error's words without secrets."""
    what, advice = _case(error)
    return f"{queue} {what.format(said=said)}; no request in it was lost; {advice}"


def refusal(word: str, what: str, queue: str) -> str:
    """For a person, when a queue was not opened: the script's word, and what it says."""
    nothing = "nothing was changed"
    if word == "foreign":
        return f"{queue}: {what} is of another program; {nothing}; name another database with REDIS_DB"
    if word == "format":
        return (
            f"{queue} was written by another version of TileHarvest (its format is {what}, this one's"
            f" {FORMAT}); {nothing}; finish it with that version or {AFRESH}"
        )
    return f"{queue} does not allow its user all that is needed ({what}); {nothing}; {_PERMISSION}"


def _case(error: Exception) -> tuple[str, str]:
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return _LOGIN
    if isinstance(error, BusyLoadingError):
        return _LOADING
    for words, case in _BY_WORDS.items():
        if _words(error).startswith(f"{words} "):
            return case
    is_away = isinstance(error, (ConnectionError, TimeoutError, RedisClusterException))
    return _AWAY if is_away or not isinstance(error, RedisError) else _OTHER


def _words(error: Exception) -> str:
    """With the code that the server put before them, which the library takes off for its own classes."""
    said = str(error)
    # Redis 6 and 7.0 leave the code out when a script is refused something.
    code = "NOPERM" if "user executing the script" in said else _CODES.get(type(error).__name__)
    return said if code is None or said.startswith(code) else f"{code} {said}"


_CODES: Final = {
    "ReadOnlyError": "READONLY",
    "OutOfMemoryError": "OOM",
    "NoPermissionError": "NOPERM",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
}
