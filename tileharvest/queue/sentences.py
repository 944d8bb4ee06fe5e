"""The sentences that a person reads when a queue cannot be used, and when a request is given up."""

from __future__ import annotations

from typing import Final

AFRESH: Final = "start afresh with --fresh, or a spider with -a fresh=1"
"""The way out if a queue cannot be used. Nothing is lost, because the history has what was harvested:
requests are only made again."""

WORKER_ENDED: Final = "its worker ended {attempts} times while it was under way"
"""The reason for giving up a request whose worker was killed at each attempt."""

_LOST: Final = "no request in it was lost"
_UNREADABLE: Final = (
    "{queue} cannot be read ({said}); it was not deleted, and the history is unharmed: "
    f"{AFRESH}, or move the file away"
)
_FULL: Final = f"disk full: {{queue}} could not be written; {_LOST}; free space and run again"
_LOGIN: Final = (
    f"{{queue}} refuses the login ({{said}}); {_LOST}; correct name and password in REDIS_URL or REDIS_PARAMS"
)
_EMPTIED: Final = (
    "{queue} was emptied while a crawl worked on it, and has lost {said}; what was recorded is kept; run"
    " again, and the rest is asked for"
)

_SENTENCES: Final = {
    # By the names of SQLite's primary result codes, https://www.sqlite.org/rescode.html
    "SQLITE_BUSY": (
        f"{{queue}} is locked by another program for too long; {_LOST}; let that end and run again"
    ),
    "SQLITE_CORRUPT": _UNREADABLE,
    "SQLITE_NOTADB": _UNREADABLE,
    "SQLITE_FULL": _FULL,
    # The disk is too full for the shared memory file that lies beside a database.
    "SQLITE_IOERR_SHMSIZE": _FULL,
    "SQLITE_READONLY": (
        f"{{queue}} cannot be written here ({{said}}); {_LOST};"
        " make the file and its folder writable, or name another place"
    ),
    "SQLITE_CANTOPEN": (
        f"{{queue}} cannot be opened ({{said}}); {_LOST};"
        " make sure that its folder exists and is writable, or name another place"
    ),
    "SQLITE": (
        f"{{queue}} failed ({{said}}); {_LOST}; run again, or check the disk; where that does not help,"
        f" {AFRESH}"
    ),
    # By the first word of Redis' errors; AWAY where nothing answers.
    "AWAY": (
        f"{{queue}} does not answer ({{said}}); {_LOST}; see that it runs and can be reached, and run again"
    ),
    "WRONGPASS": _LOGIN,
    "NOAUTH": _LOGIN,
    "NOPERM": (
        f"{{queue}} does not allow its user something ({{said}}); {_LOST};"
        " let an administrator allow it: ~tileharvest:* +@all -@admin"
    ),
    "OOM": f"{{queue}} is out of memory ({{said}}); {_LOST}; give it more (maxmemory), and run again",
    "LOST": _EMPTIED,
    "REDIS": f"{{queue}} failed ({{said}}); {_LOST}; run again; Redis must be of version 6 or newer",
    # By what was found in the place of a queue.
    "lost": _EMPTIED,
    "format": (
        "{queue} is not of this version of TileHarvest (its format is {said}); nothing was changed;"
        f" finish it with that version, name another place, or {AFRESH}"
    ),
    "closed": f"{{queue}} is not open; {_LOST}; the program is about to end",
    "evicting": (
        "{queue} may throw requests away when its memory is full (maxmemory-policy {said});"
        " nothing was changed; let an administrator set maxmemory-policy noeviction"
    ),
}


def sentence(case: str, queue: str, said: str) -> str:
    """Returns one line that says what happened, that nothing was lost, and what to do next.

    `case` is the name of SQLite's result code, the first word of Redis' error, or what was found in the place
    of a queue. `queue` says which queue it is, and where. `said` is the backend's own message, without
    passwords.
    """
    is_sqlite = case.startswith("SQLITE_")
    primary = "_".join(case.split("_")[:2]) if is_sqlite else case
    form = _SENTENCES.get(case) or _SENTENCES.get(primary) or _SENTENCES["SQLITE" if is_sqlite else "REDIS"]
    return form.format(queue=queue, said=" ".join(said.split()))
