"""The command `python -m container.healthy`: checks that this container does the work it was started for.

The exit status is 0, or it is 1 and a line says what is wrong. `docker inspect` shows that line.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from http.client import HTTPException
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final
from urllib.request import ProxyHandler, Request, build_opener

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE: Final = 4.0
"""Seconds for one answer. They must be fewer than those of the image's HEALTHCHECK."""

_VIEWER_PORT: Final = "8000"
_SCRAPYD_PORT: Final = "6800"
_REDIS: Final = ("REDIS_URL", "REDIS_HOST", "REDIS_PARAMS")


class UnhealthyError(Exception):
    """The container does not do its work. The message is one line for a person."""


def role(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Returns the work that the container's first process was started for, and the words after it.

    `words` is that process's command line: of `start`, of the program that `start` became, or of an init
    before either. An unknown one is taken for a worker, of which least is asked.
    """
    for at, word in enumerate(words):
        name = PurePath(word).name
        if name == "scrapyd":
            return name, words[at + 1 :]
        if name in ("start", "tileharvest") and at + 1 < len(words):
            return words[at + 1], words[at + 2 :]
    return "", ()


def check(words: Sequence[str]) -> None:
    """Checks the work that this container was started for.

    Raises UnhealthyError for a fault, and OSError for a server that cannot be reached.
    """
    what, options = role(words)
    if what == "serve":
        _check_page(f"http://127.0.0.1:{_port(options)}/api/v1/maps")
    elif what == "scrapyd":
        _check_page(f"http://127.0.0.1:{_SCRAPYD_PORT}/daemonstatus.json", *_login())
    else:
        _check_worker()
        if "--serve" in options:
            _check_page(f"http://127.0.0.1:{_port(options)}/api/v1/maps")


def _port(options: Sequence[str]) -> str:
    """Returns the port among the options. The last one counts, as in argparse."""
    port = _VIEWER_PORT
    for option, following in zip(options, [*options[1:], ""], strict=True):
        if option == "--port":
            port = following
        elif option.startswith("--port="):
            port = option.removeprefix("--port=")
    return port


def _login() -> tuple[str, str]:
    return os.environ.get("SCRAPYD_USERNAME", ""), os.environ.get("SCRAPYD_PASSWORD", "")


def _check_page(address: str, *login: str) -> None:
    request = Request(address)  # noqa: S310 -- the addresses are our own, above
    if login:
        request.add_header("Authorization", f"Basic {base64.b64encode(':'.join(login).encode()).decode()}")
    # A proxy is for the sites, not for this container itself.
    with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        answer.read()


def _check_worker() -> None:
    # Only a worker needs the settings, and their import takes a moment.
    from tileharvest import settings  # noqa: PLC0415

    data = Path(settings.TILEHARVEST_DATA)
    if not os.access(data, os.W_OK):
        raise UnhealthyError(f"{data} cannot be written: it must belong to user {os.getuid()}")
    if any(vars(settings).get(name) for name in _REDIS):
        asyncio.run(_check_redis(vars(settings)))


async def _check_redis(settings: dict[str, object]) -> None:
    from scrapy.settings import BaseSettings  # noqa: PLC0415

    from tileharvest.errors import QueueError  # noqa: PLC0415
    from tileharvest.queue.redis.link import RedisLink  # noqa: PLC0415

    link = RedisLink(BaseSettings(settings), "Redis", PATIENCE)
    try:
        await link.open()
    except QueueError as error:
        raise UnhealthyError(str(error)) from None
    finally:
        await link.close()


def main() -> int:
    words = Path("/proc/1/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    try:
        check(words)
    except (UnhealthyError, OSError, HTTPException) as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
