"""The delivery of notices through Apprise, which knows a hundred services, and the targets they go to.

What Apprise and the libraries below it log may hold tokens. So their loggers are silenced, and a failure is
told only by fixed words and a status.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apprise import Apprise, AppriseResult

    from tileharvest.notices.message import Message

HOW_TO_INSTALL: Final = "pip install '.[notify]'"
"""To be run in the project's folder."""

_TALKATIVE: Final = ("apprise", "charset_normalizer", "oauthlib", "requests", "requests_oauthlib", "urllib3")
_STATUS: Final = re.compile(r"\berror=(\d{3})\b")
"""All of Apprise's services end so what they log of an answer."""
_UNANSWERED: Final = re.compile(r"\b(connection|socket)\b.*\berror\b", re.IGNORECASE)
_KINDS: Final = {"png": "image/png", "mp4": "video/mp4", "webp": "image/webp"}
_SECRET: Final = re.compile(r"\$\{(?P<file>file:)?(?P<name>[^{}]+)\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """An address of which nothing but the scheme is ever shown."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        """Returns for example `tgram://...`."""
        scheme = _SCHEME.match(self.url)
        return f"{scheme[0].lower()}://..." if scheme else "an address without a scheme"


def parse_target(text: str, environment: Mapping[str, str]) -> Target:
    """Returns the address with its secrets filled in.

    `${NAME}` becomes the environment variable, and `${file:/run/secrets/x}` what the file holds, without
    space at its ends. A secret is percent-encoded, so that a password may hold any sign. A secret that is all
    of the text is a whole address, and stays as it is. Raises LookupError that names a secret which is not
    there, and holds no value.
    """
    whole = _SECRET.fullmatch(text.strip())
    if whole is not None:
        return Target(_secret(whole, environment))
    return Target(_SECRET.sub(lambda found: quote(_secret(found, environment), safe=""), text.strip()))


def parse_targets(texts: Iterable[str], environment: Mapping[str, str]) -> tuple[list[Target], list[str]]:
    """Returns the complete addresses, and what is missing of the others."""
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
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise LookupError(f"the file {name} cannot be read ({reason})") from None
    if not value:
        raise LookupError(f"the file {name} is empty")
    return value


def is_installed() -> bool:
    """Says whether Apprise is there, without loading it, which takes 0.2 s."""
    return find_spec("apprise") is not None


def deliver(
    targets: Sequence[Target],
    message: Message,
    picture: bytes | None,
    patience: float,
    film: tuple[str, bytes] | None = None,
) -> list[str]:
    """Sends to all targets at once. Returns which did not get it within `patience` seconds in all, and why.

    A film is the name of a file and what is in it. What this returns holds nothing secret. Raises nothing.
    What still hangs then is left in threads that do not hold up the end of the process.
    """
    _silence()
    reasons: dict[int, str | None] = {}

    def send(number: int, target: Target) -> None:
        try:
            reasons[number] = _send(target, message, picture, patience, film)
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
    late = f"no answer within {patience:.2g} s"
    ended = ((target, reasons.get(number, late)) for number, target in enumerate(targets))
    return [f"{target} ({reason})" for target, reason in ended if reason is not None]


def _send(
    target: Target,
    message: Message,
    picture: bytes | None,
    patience: float,
    film: tuple[str, bytes] | None,
) -> str | None:
    """Returns why the message did not get there; None when it did."""
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415 - an extra, loaded where it is used
    from apprise.attachment.memory import AttachMemory  # noqa: PLC0415

    service = _service(target, patience)
    if service is None:
        return "Apprise does not understand the address"
    files = [] if picture is None else [("change.png", picture)]
    files += [] if film is None else [film]
    attached = [
        AttachMemory(content=body, name=name, mimetype=_KINDS[name.rpartition(".")[2]])  # type: ignore[no-untyped-call]
        for name, body in files
    ]
    result = service.notify(
        title=message.title,
        body=message.body,
        body_format=NotifyFormat.MARKDOWN,
        notify_type=NotifyType.WARNING if message.is_failure else NotifyType.INFO,
        attach=attached or None,
    )
    return None if result else _reason(result)


def _service(target: Target, patience: float) -> Apprise | None:
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415

    # Apprise's own time limit uses threads for which Python waits when the process ends. Ours do not.
    asset = AppriseAsset(app_id="TileHarvest", async_mode=False, service_timeout=0)
    service = Apprise(asset=asset)
    if not service.add(target.url):
        return None
    for each in service:
        # By default Apprise gives a service 4 s to take a picture of a megabyte and answer.
        each.socket_read_timeout = max(each.socket_read_timeout, patience)
    return service


def _reason(result: AppriseResult) -> str:
    said = [entry.message for entry in result.logs()]
    status = next((found[1] for line in said if (found := _STATUS.search(line))), None)
    if status is not None:
        return f"it answered {status}"
    return "it does not answer" if any(map(_UNANSWERED.search, said)) else "it did not take the message"


def _silence() -> None:
    """Silences the talkative loggers for the rest of the process, because what hangs may log later."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            # Without one, warnings would go to stderr.
            logger.addHandler(logging.NullHandler())
