#!/usr/bin/env python3
"""Fetches the Leaflet that the viewer's page brings along, or checks that the files here are that Leaflet.

    fetch_leaflet.py            replaces tileharvest/viewer/page/leaflet by the files of the release
    fetch_leaflet.py --check    says which files differ from the release; the exit status is 1 if any do

The release comes from npm's registry and must have exactly the bytes that are expected. The files are
kept byte for byte. Proxies and certificates are taken from the usual environment variables.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import re
import sys
import tarfile
import urllib.request
from http.client import HTTPException
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
MOST_BYTES: Final = 5_000_000
"""The most bytes that are read. The release has 869,361; a much larger answer is refused in any case."""
PATIENCE: Final = 60
"""Seconds without a byte after which the fetch fails."""

_WANTED: Final = re.compile(
    r"package/(?:dist/(?P<built>leaflet\.js|leaflet\.css|images/[\w.-]+)|(?P<top>LICENSE))"
)


class FetchError(Exception):
    """The release cannot be fetched. The message is one line for a person."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, say which files differ")
    check = parser.parse_args(arguments).check
    try:
        files = files_of(fetched())
        differing = differences(FOLDER, files)
        if not check:
            replace(FOLDER, files)
    except (FetchError, OSError) as error:
        sys.stderr.write(f"fetch_leaflet.py: {error}\n")
        return 1
    for name, what in differing.items():
        sys.stdout.write(f"{name}: {what}{'' if check else '; put right'}\n")
    return 1 if check and differing else 0


def fetched() -> bytes:
    """Returns the release's bytes. Raises FetchError if they cannot be read or are not the expected ones."""
    try:
        with urllib.request.urlopen(ADDRESS, timeout=PATIENCE) as answer:
            body: bytes = answer.read(MOST_BYTES)
    except (OSError, HTTPException) as error:
        raise FetchError(
            f"{ADDRESS} cannot be read ({error}): nothing was written; try again later"
        ) from None
    found = base64.b64encode(hashlib.sha512(body).digest()).decode()
    if found != INTEGRITY:
        raise FetchError(f"{ADDRESS} has sha512-{found} instead of sha512-{INTEGRITY}: nothing was written")
    return body


def files_of(release: bytes) -> dict[str, bytes]:
    """Returns the files of the release that the page needs, by path in our folder.

    A note that tells where they are from is added.
    """
    files = {"README.md": README.encode()}
    with tarfile.open(fileobj=io.BytesIO(release), mode="r:gz") as archive:
        for member in archive:
            match = _WANTED.fullmatch(member.name)
            content = archive.extractfile(member) if match else None
            if match and content:
                files[match["built"] or match["top"]] = content.read()
    return files


def present(folder: Path) -> dict[str, bytes]:
    """Returns the files that are in the folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def differences(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    """Returns, by path, what is wrong with each file of the folder that differs from `files`, in words."""
    here = present(folder)
    wrong = dict.fromkeys(files.keys() - here.keys(), "missing")
    wrong |= dict.fromkeys(here.keys() - files.keys(), "not of the release")
    wrong |= {name: "other bytes" for name in files.keys() & here.keys() if files[name] != here[name]}
    return dict(sorted(wrong.items()))


def replace(folder: Path, files: dict[str, bytes]) -> None:
    """Makes the folder hold exactly these files."""
    for name in present(folder).keys() - files.keys():
        (folder / name).unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
