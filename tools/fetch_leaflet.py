#!/usr/bin/env python3
"""Fetches the Leaflet that the viewer's page brings along, into tileharvest/viewer/page/leaflet.

The release comes from npm's registry and must have exactly the bytes that are expected. The files are kept
byte for byte, so `git diff` shows whether those here differ.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Final

VERSION: Final = "1.9.4"
ADDRESS: Final = f"https://registry.npmjs.org/leaflet/-/leaflet-{VERSION}.tgz"
INTEGRITY: Final = "nxS1ynzJOmOlHp+iL3FyWqK89GtNL8U8rvlMOsQdTTssxZwCXh8N2NB3GDQOL+YR3XnWyZAxwQixURb+FA74PA=="
"""The release's SHA-512 in base 64, as the registry states it."""
FOLDER: Final = Path(__file__).resolve().parents[1] / "tileharvest" / "viewer" / "page" / "leaflet"
README: Final = (
    f"Leaflet {VERSION} (https://leafletjs.com), unchanged, from {ADDRESS};"
    " fetched and checked by tools/fetch_leaflet.py.\n"
)
_MOST_BYTES: Final = 5_000_000
_WANTED: Final = re.compile(r"package/(?:dist/(leaflet\.js|leaflet\.css|images/[\w.-]+)|(LICENSE))")


def main() -> int:
    with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
        body: bytes = answer.read(_MOST_BYTES)
    found = base64.b64encode(hashlib.sha512(body).digest()).decode()
    if found != INTEGRITY:
        sys.stderr.write(f"{ADDRESS} has sha512-{found} instead of sha512-{INTEGRITY}: nothing was written\n")
        return 1
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "README.md").write_text(README, encoding="utf-8")
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as archive:
        for member in archive:
            match, content = _WANTED.fullmatch(member.name), archive.extractfile(member)
            if match and content:
                file = FOLDER / (match[1] or match[2])
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
