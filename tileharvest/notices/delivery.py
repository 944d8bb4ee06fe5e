"""The targets of notices, and the delivery through Apprise, which knows a hundred services.

The log lines of Apprise and its libraries may contain tokens. Their loggers are therefore silenced, and a
failure is described only by fixed words and a status.
"""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apprise import Apprise, AppriseResult

    from tileharvest.notices.message import Message

Result = TypeVar("Result")

HOW_TO_INSTALL: Final = "pip install '.[notify]'"
"""The command that installs Apprise, for the project's folder."""

_TALKATIVE: Final = ("apprise", "charset_normalizer", "oauthlib", "requests", "requests_oauthlib", "urllib3")
_STATUS: Final = re.compile(r"\berror=(\d{3})\b")
"""The end of each log line of Apprise's services about an answer."""
_UNANSWERED: Final = re.compile(r"\b(connection|socket)\b.*\berror\b", re.IGNORECASE)
_SECRET: Final = re.compile(r"\$\{(?P<file>file:)?(?P<name>[^{}]+)\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """An address that contains secrets. Only its scheme is ever shown."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """Returns the scheme, such as `tgram://...`."""
        scheme = _SCHEME.match(self.url)
        return f"{scheme[0].lower()}://..." if scheme else "an address without a scheme"


def parse_target(text: str, environment: Mapping[str, str]) -> Target:
    """Returns the address with its secrets filled in.

    `${NAME}` becomes the value of the environment variable. `${file:/run/secrets/x}` becomes the content of
    the file, without white space at its ends. Secrets are percent-encoded, so that a password may contain any
    character. If the whole text is one secret, the secret is a whole address and is not encoded. Raises
    LookupError for a missing secret. Its text names the secret and contains no value.
    """
    whole = _SECRET.fullmatch(text.strip())
    if whole is not None:
        return Target(_secret(whole, environment))
    return Target(_SECRET.sub(lambda found: quote(_secret(found, environment), safe=""), text.strip()))


def parse_targets(texts: Iterable[str], environment: Mapping[str, str]) -> tuple[list[Target], list[str]]:
    """Returns the complete addresses, and the messages about missing secrets of the others."""
    targets, missing = [], []
    for text in texts:
        try:
            targets.append(parse_target(text, environment))
        except LookupError as error:
            missing.append(str(error))
    return targets, missing


def _secret(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name = found["name"]
    if not found["file"]:
        value = environment.get(name, "")
        if not value:
            raise LookupError(f"the environment variable {name} is not set")
        return value
    try:
        value = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise LookupError(f"the file {name} cannot be read ({reason})") from None
    if not value:
        raise LookupError(f"the file {name} is empty")
    return value


def is_installed() -> bool:
    """Returns whether Apprise is installed. Does not load it, which takes 0.2 s."""
    return find_spec("apprise") is not None


def in_daemon(work: Callable[[], Result]) -> Future[Result]:
    """Does the work in a thread of its own, and returns its future at once.

    Python does not wait for the thread when the process ends, as it does for those of asyncio and of
    executors.
    """
    done: Future[Result] = Future()
    # A running future cannot be cancelled, so the thread can set its result even if nobody waits any more.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True, name="notice").start()
    return done


def deliver(targets: Sequence[Target], message: Message, picture: bytes | None, patience: float) -> list[str]:
    """Sends the message to all targets at once. Returns the targets that did not get it, each with the
    reason.

    All targets together have `patience` seconds. `picture` is a JPEG that goes with the message. The returned
    texts contain no secret. Raises nothing. Deliveries that hang do not keep the process from ending.
    """
    _silence()
    sent = [in_daemon(partial(_send, target, message, picture, patience)) for target in targets]
    wait(sent, patience)
    missed = []
    for target, sending in zip(targets, sent, strict=True):
        if not sending.done():
            reason: str | None = f"no answer within {patience:.2g} s"
        elif (error := sending.exception()) is not None:
            # A service may raise anything, and the error's text may contain the address.
            reason = f"Apprise failed: {type(error).__name__}"
        else:
            reason = sending.result()
        if reason is not None:
            missed.append(f"{target} ({reason})")
    return missed


def _send(target: Target, message: Message, picture: bytes | None, patience: float) -> str | None:
    """Sends the message to one target. Returns the reason of a failure, or None."""
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415 - an extra, loaded where it is used
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415

    service = _service(target, patience)
    if service is None:
        return "Apprise does not understand the address"
    attached = None
    if picture is not None:
        name, kind = "change.jpg", "image/jpeg"
        attached = AttachMemory(content=picture, name=name, mimetype=kind)  # type: ignore[no-untyped-call]
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

    # For its own time limit Apprise uses threads for which Python waits when the process ends. `deliver` has
    # threads for which it does not.
    asset = AppriseAsset(app_id="TileHarvest", async_mode=False, service_timeout=0)
    service = Apprise(asset=asset)
    if not service.add(target.url):
        return None
    for each in service:
        # Apprise's default of 4 s is short for a picture of a megabyte.
        each.socket_read_timeout = max(each.socket_read_timeout, patience)
    return service


def _reason(result: AppriseResult) -> str:
    said = [entry.message for entry in result.logs()]
    status = next((found[1] for line in said if (found := _STATUS.search(line))), None)
    if status is not None:
        return f"it answered {status}"
    return "it does not answer" if any(map(_UNANSWERED.search, said)) else "it did not take the message"


def _silence() -> None:
    """Silences the loggers for the rest of the process, because a delivery that hangs may log later."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            # A logger without a handler writes warnings to stderr.
            logger.addHandler(logging.NullHandler())
