"""Hands a message to Apprise, which knows a hundred services.

What Apprise and the libraries below it log may hold tokens: their loggers are silenced, and of a failure only
what is picked from fixed words and a status is told.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apprise import Apprise, AppriseResult

    from tileharvest.notices.message import Message
    from tileharvest.notices.targets import Target

HOW_TO_INSTALL: Final = "pip install '.[notify]'"
"""In the project's folder."""

_TALKATIVE: Final = ("apprise", "charset_normalizer", "oauthlib", "requests", "requests_oauthlib", "urllib3")
_STATUS: Final = re.compile(r"\berror=(\d{3})\b")
"""As all of Apprise's services end what they log of an answer."""
_UNANSWERED: Final = re.compile(r"\b(connection|socket)\b.*\berror\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A target that did not get the message. Holds nothing secret."""

    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.target} ({self.reason})"


def is_installed() -> bool:
    """Whether there is Apprise; looks without loading it, which takes 0.2 s."""
    return find_spec("apprise") is not None


def deliver(
    targets: Sequence[Target], message: Message, picture: bytes | None, patience: float
) -> list[Undelivered]:
    """Send to all targets at once; those that did not get it within `patience` seconds, in all.

    Raises nothing. What still hangs then is left in threads that do not hold up the end of the process.
    """
    _silence()
    reasons: dict[int, str | None] = {}

    def send(number: int, target: Target) -> None:
        try:
            reasons[number] = _send(target, message, picture, patience)
        # Whatever a service's code raises: its text may hold the address.
        except Exception as error:  # noqa: BLE001
            reasons[number] = f"Apprise failed: {type(error).__name__}"

    threads = [
        threading.Thread(target=send, args=(number, target), daemon=True, name="notice")
        for number, target in enumerate(targets)
    ]
    until = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = f"no answer within {patience:g} s"
    ended = ((target, reasons.get(number, late)) for number, target in enumerate(targets))
    return [Undelivered(str(target), reason) for target, reason in ended if reason is not None]


def _send(target: Target, message: Message, picture: bytes | None, patience: float) -> str | None:
    """Why it did not get there; None: it did."""
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415 - an extra, loaded where it is used
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415

    service = _service(target, patience)
    if service is None:
        return "Apprise does not understand the address"
    attached = None
    if picture is not None:
        attached = AttachMemory(content=picture, name="change.png", mimetype="image/png")  # type: ignore[no-untyped-call]
    result = service.notify(
        title=message.title,
        body=message.body,
        body_format=NotifyFormat.MARKDOWN,
        notify_type=NotifyType.WARNING if message.is_failure else NotifyType.INFO,
        attach=attached,
    )
    return None if result else _reason(result)


def _service(target: Target, patience: float) -> Apprise | None:
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415

    # Its own limit of time works by threads that Python waits for when the process ends: ours do not.
    asset = AppriseAsset(app_id="TileHarvest", async_mode=False, service_timeout=0)
    service = Apprise(asset=asset)
    if not service.add(target.url):
        return None
    for each in service:
        # By default it gives a service 4 s to take a picture of a megabyte and answer.
        each.socket_read_timeout = max(each.socket_read_timeout, patience)
    return service


def _reason(result: AppriseResult) -> str:
    said = [entry.message for entry in result.logs()]
    status = next((found[1] for line in said if (found := _STATUS.search(line))), None)
    if status is not None:
        return f"it answered {status}"
    return "it does not answer" if any(map(_UNANSWERED.search, said)) else "it did not take the message"


def _silence() -> None:
    """For the rest of the process: what hangs may log later."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            # Without one, warnings would go to stderr.
            logger.addHandler(logging.NullHandler())
