"""The targets and occasions of a map's notices, and the delivery through Apprise.

The log lines of Apprise and its libraries may contain tokens. Their loggers are therefore silenced, and a
failure is described only by fixed words and a status.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import NOTICES
from tileharvest.maps.named_areas import load_areas, no_such_area
from tileharvest.maps.settings import areas_file, setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apprise import Apprise, AppriseResult
    from scrapy.settings import BaseSettings

    from tileharvest.maps.description import MapDescription
    from tileharvest.maps.named_areas import NamedArea
    from tileharvest.notices.message import Message

Result = TypeVar("Result")
_logger = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class Wishes:
    """The targets and occasions of a map's notices."""

    targets: tuple[Target, ...]
    occasions: tuple[str, ...]
    """Words of `NOTICES`."""
    viewer: str = ""
    """The address of the viewer, for links. If it is empty there are no links."""
    areas: tuple[NamedArea, ...] | None = None
    """The named areas whose changes are reported. None means the whole map."""


def wishes_for(settings: BaseSettings, description: MapDescription) -> Wishes | None:
    """Returns the targets and occasions of the map's notices, or None if there are no targets.

    The log says why a target is left out.
    """
    texts = description.notify
    if texts is None:
        texts = tuple(settings.getlist("NOTIFY", setting(settings, "NOTIFY")))
    if not texts:
        return None
    if find_spec("apprise") is None:
        _logger.warning("notices need Apprise: pip install '.[notify]'; this goes on without")
        return None
    try:
        occasions = notice_occasions(settings, description)
    except ConfigurationError as error:
        _logger.warning("%s; this goes on without notices", error)
        return None
    targets, missing = parse_targets(texts, os.environ)
    if missing:
        _logger.warning("an address to notify is left out: %s; this goes on without", ", ".join(missing))
    if not targets:
        return None
    viewer = description.viewer or setting(settings, "VIEWER_URL")
    return Wishes(tuple(targets), occasions, viewer, _watched(settings, description))


def _watched(settings: BaseSettings, description: MapDescription) -> tuple[NamedArea, ...] | None:
    """Returns the areas that the map's entry names, or None if it names none. The log names missing
    ones."""
    if not description.areas:
        return None
    try:
        known = load_areas(areas_file(settings)).get(description.name, [])
    except ConfigurationError as error:
        _logger.warning("%s; this goes on without notices of areas", error)
        return ()
    for name in description.areas:
        if name not in {area.name for area in known}:
            reason = no_such_area(description.name, name, known)
            _logger.warning("an area to be watched is left out: %s; this goes on without", reason)
    return tuple(area for area in known if area.name in description.areas)


def notice_occasions(settings: BaseSettings, description: MapDescription) -> tuple[str, ...]:
    """Returns the occasions of messages about the map. Raises ConfigurationError."""
    occasions = description.on
    if occasions is None:
        occasions = tuple(settings.getlist("NOTIFY_ON", setting(settings, "NOTIFY_ON")))
    for one in occasions:
        if one not in NOTICES:
            raise ConfigurationError(f"NOTIFY_ON '{one}' is none of: {', '.join(NOTICES)}")
    return occasions


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
        attached = AttachMemory(content=picture, name="change.jpg", mimetype="image/jpeg")  # type: ignore[no-untyped-call]
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
