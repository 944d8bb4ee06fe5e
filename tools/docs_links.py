# ruff: noqa: INP001 -- MkDocs loads it by its path
"""A hook of MkDocs: a link to a file outside of docs/ becomes plain text, as the website lacks that file."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    folder = DOCS / PurePosixPath(page.file.src_uri).parent

    def kept(match: re.Match[str]) -> str:
        is_inside = (folder / match[2]).resolve().is_relative_to(DOCS)
        return match[0] if is_inside else match[1]

    return LINK.sub(kept, markdown)
