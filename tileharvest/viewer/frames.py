"""Which other sites may show the viewer in a frame of their pages. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tileharvest.errors import ConfigurationError
from tileharvest.viewer.replies import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

_ORIGIN: Final = re.compile(
    r"https?://(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*(:\d{1,5})?", re.ASCII | re.IGNORECASE
)
"""A host-source of CSP (level 3, section 2.3.1) with its scheme and without a path."""
_POLICY: Final = "Content-Security-Policy"


def parse_ancestors(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the sites of `--frame-ancestors`. Raises ConfigurationError for what is none."""
    ancestors = tuple(texts)
    for text in ancestors:
        if _ORIGIN.fullmatch(text) is None:
            raise ConfigurationError(
                f"--frame-ancestors {text} cannot be: write a site such as https://forum.example.net"
            )
    return ancestors


def framed(response: web.Response, ancestors: tuple[str, ...]) -> web.Response:
    """Lets pages of these sites, and the viewer's own, frame an answer. Without sites it stays as it is."""
    if ancestors:
        sites = " ".join(("'self'", *ancestors))
        response.headers[_POLICY] = HEADERS[_POLICY].replace(
            "frame-ancestors 'none'", f"frame-ancestors {sites}"
        )
        # It knows no list of sites, and what browsers make of both together differs.
        del response.headers["X-Frame-Options"]
    return response
