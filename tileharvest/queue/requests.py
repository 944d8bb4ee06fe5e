"""The meta of a request: orders that any spider may give."""

from __future__ import annotations

from typing import Final

NOT_BEFORE: Final = "not_before"
"""Key of meta, an order: seconds since 1970 before which the request is not offered."""
