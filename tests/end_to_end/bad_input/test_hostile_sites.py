"""Sites that try to break the program. A row of the table says how the harvest of a site must end.

One process, which is started as a user starts it, harvests all of them, and its memory is measured. Later
another process harvests them once more, when they are healthy.
"""

import json
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import pytest
from aiohttp import web

from tests.end_to_end.bad_input.small_site import (
    FIRST_DAY,
    SECOND_DAY,
    configuration,
    drawn,
    publish,
)
from tests.end_to_end.forking import ROOT
from tests.end_to_end.project import Project
from tests.servers import rules
from tests.servers.misbehaving import Answer, Exchange, Rule, misbehaving
from tests.tiles.test_images import jpeg_of
from tests.viewer.building import picture
from tileharvest.errors import HIDDEN, ExitStatus

MOST_MEMORY: Final = 300 * 1024
"""The most kilobytes of memory that the process may have at any time."""
MEASURED: Final = """
import atexit, sys
def tell():
    # ru_maxrss would begin with the memory of the process that started this one.
    peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    print("peak", *peak, file=sys.stderr)
atexit.register(tell)
from scrapy.cmdline import execute
execute()
"""
TILESET: Final = json.loads(configuration().partition("= ")[2].rstrip(";\n"))["tilesets"][0]


def told(tilesets: Any, **more: Any) -> bytes:
    said = {"CONST": {"tileSize": 48}, "tilesets": tilesets, **more}
    return f"var overviewerConfig = {json.dumps(said)};".encode()


def file(content: bytes, headers: Mapping[str, str] = {}) -> Rule:
    """Answers with this content."""
    return Answer(200, headers, content)


def followed_by(more: bytes) -> Rule:
    """Sends the proper answer, and more behind it, on a connection that is kept open."""

    async def answer(exchange: Exchange) -> web.StreamResponse:
        parts = (rules.proper_head(exchange), exchange.proper.body, more)
        return await exchange.answered(rules.raw(*parts, ending="open"))

    return answer


def head_with_a_body() -> Rule:
    """Sends a body, that of an answer of its own, to HEAD as well."""
    return rules.only("HEAD", followed_by(b""))


@cache
def packed_bomb() -> bytes:
    """Returns 256 MiB of zero bytes as gzip. They are packed in parts, so they are never whole in memory."""
    packer = zlib.compressobj(1, wbits=31)
    part = bytes(1 << 20)
    return b"".join(packer.compress(part) for _ in range(256)) + packer.flush()


def image_bomb() -> bytes:
    """Returns an image of 16 x 16 pixels with a colour profile of 256 MiB of zero bytes."""
    image = drawn("bomb")
    packed = b"zeros\0\0" + packed_bomb()[10:-8]
    name = b"iCCP" + packed
    chunk = len(packed).to_bytes(4) + name + zlib.crc32(name).to_bytes(4)
    end = 8 + 25  # behind the signature and IHDR
    return image[:end] + chunk + image[end:]


def late(make: Callable[[], Rule]) -> Rule:
    """Returns a rule that is made when it is first asked: to load this file is to pack no bomb."""
    made = cache(make)

    async def answer(exchange: Exchange) -> web.StreamResponse:
        return await exchange.answered(made())

    return answer


PACKED: Final = {"Content-Encoding": "gzip"}
HTTP: Final = b"HTTP/1.1 200 OK\r\n"
IMAGE: Final = picture(size=16)
CHUNKED: Final = HTTP + b"Transfer-Encoding: chunked\r\n\r\n"
HEADER: Final = b"X-Much: %b\r\n" % (b"x" * 1000)
SECOND: Final = b'HTTP/1.1 200 OK\r\nETag: "2"\r\nContent-Length: 4\r\n\r\nevil'
LINKED_LOCALLY: Final = "http://169.254.169.254/latest/meta-data.png"
"""The address at which clouds give a machine its keys."""


class Row(NamedTuple):
    status: int
    line: str | None
    """A part of the line that says what is wrong. None: there is no line."""
    config: Rule | None = None
    """What the site sends for its configuration."""
    tile: Rule | None = None
    """What the site sends for each tile."""
    keys: Mapping[str, Any] = {}
    """Further keys of the map."""


def told_row(line: str, config: bytes) -> Row:
    """Returns the row of a site whose configuration is refused."""
    return Row(5, line, file(config))


TABLE: Final = {
    "twice": told_row("twice", told([TILESET, TILESET])),
    "steering": told_row(
        "zoomLevels is 33", told([{**TILESET, "path": "\x1b[2J\u202e\nerror", "zoomLevels": 33}])
    ),
    "many": told_row("tilesets is ", told([{**TILESET, "path": f"p{number}"} for number in range(10_000)])),
    "empty-objects": told_row(
        "values, and at most", b"var overviewerConfig = [" + b"{}," * 5_000_000 + b"{}]"
    ),
    "nested": told_row("nested more than 100 deep", b"var overviewerConfig = " + b"[" * 100_000),
    "packed-bomb": Row(5, "overviewerConfig.js", late(lambda: file(packed_bomb(), PACKED))),
    "endless-file": Row(5, "cannot be reached (the answer has more than 16,777,216", rules.endless()),
    "silent": Row(5, "less than 1,000 bytes a second", rules.hang()),
    "private": Row(
        5, "169.254.169.254 was not asked", rules.redirect(302, "http://169.254.169.254/overviewerConfig.js")
    ),
    "private-base": told_row(
        "169.254.169.254 was not asked: its address is of a network that is link-local",
        told([{**TILESET, "base": "http://169.254.169.254/"}]),
    ),
    "large-jpeg": Row(3, "the image has 16,383 x 16,383 pixels", tile=file(jpeg_of(16_383, 16_383))),
    "packed-tile": Row(
        3, "the answer is not a PNG, JPEG or WebP image", tile=late(lambda: file(packed_bomb(), PACKED))
    ),
    "image-bomb": Row(0, None, tile=late(lambda: file(image_bomb()))),
    "endless-tile": Row(3, "the answer has more than 33,554,432 bytes", tile=rules.endless()),
    "tile-slow": Row(
        3, "less than 1,000 bytes a second", tile=rules.raw(CHUNKED, b"1\r\n \r\n", ending="again", pause=0.1)
    ),
    "tile-head": Row(3, "response headers", tile=rules.raw(HTTP, HEADER, ending="again")),
    "long-retry": Row(
        3, "503", tile=rules.status(503, {"Retry-After": "Mon, 1 Jan 2024 00:00:00 +99999999999"})
    ),
    "tile-loop": Row(3, "more than 2 redirects", tile=rules.redirect(302, "?again")),
    "tile-private": Row(3, "its address is of a network", tile=rules.redirect(302, LINKED_LOCALLY)),
    "behind": Row(0, None, tile=followed_by(SECOND)),
    "head-body": Row(0, None, tile=head_with_a_body(), keys={"first": "head"}),
}
UNDISTURBED: Final = "undisturbed"
"""A map that is harvested on the second day only."""


class Run(NamedTuple):
    reports: dict[str, dict[str, Any]]
    said: str
    peak: int
    """Kilobytes."""


def harvested(project: Project, day: str, *names: str) -> Run:
    # No request is repeated, no host is taken for down, a silent answer is given up after 8 s, not 30, and no
    # line tells how far the harvests are, which takes longer on a busy machine.
    settings = (
        "PROGRESS_INTERVAL=3600",
        "RETRY_TIMES=0",
        "HOST_DOWN_AFTER=100000",
        "DOWNLOAD_LOW_SPEED_TIME=8",
        "REDIRECT_MAX_TIMES=2",
    )
    arguments = ("harvest", *names, "-a", f"day={day}", "--json")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments, *(word for one in settings for word in ("-s", one))],
        cwd=ROOT,
        env=project.environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    *lines, peak = done.stderr.splitlines()
    reports = {report["map"]: report for report in json.loads(done.stdout)}
    return Run(reports, "\n".join(lines), int(peak.removeprefix("peak ")))


async def hostile(exchange: Exchange) -> web.StreamResponse:
    """Answers as the row says whose name is the first part of the path."""
    row = TABLE.get(exchange.path.split("/")[1])
    rule = None
    if row is not None and exchange.path.endswith(".js"):
        rule = row.config
    elif row is not None and exchange.path.endswith(".png"):
        rule = row.tile
    return await exchange.answered(rule)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, Run, Project]]:
    """A day on which the sites are hostile, and one on which they are healthy."""
    folder = tmp_path_factory.mktemp("sites")
    site_folder = publish(folder / "site" / UNDISTURBED).folder
    for name in TABLE:
        shutil.copytree(site_folder, folder / "site" / name, copy_function=shutil.copy2)
    project = Project(folder)
    # No site may be silent while it packs one.
    packed_bomb()
    with misbehaving(folder / "site") as site:
        site.rule_for_all = hostile
        project.add_map(UNDISTURBED, f"{site.url}/{UNDISTURBED}/")
        for name, row in TABLE.items():
            project.add_map(name, f"{site.url}/{name}/", **row.keys)
        first = harvested(project, FIRST_DAY, *TABLE)
        site.rule_for_all = None
        yield first, harvested(project, SECOND_DAY, *TABLE, UNDISTURBED), project


@pytest.mark.parametrize("name", TABLE)
def test_a_hostile_site_ends_with_its_status_and_at_most_one_line(
    runs: tuple[Run, Run, Project], name: str
) -> None:
    report, row = runs[0].reports[name], TABLE[name]
    assert report["exit_status"] == row.status
    said = [line for line in runs[0].said.splitlines() if f"'{name}'" in line or f"/{name}/" in line]
    if row.status == ExitStatus.FAILED_TILES:
        # Only the first ten maps with failed tiles have a line, but each report says why tiles have failed.
        assert len(said) <= 1
        said = ["; ".join(report["failures"])]
    assert len(said) == (row.line is not None)
    for line in said:
        assert row.line in line
        assert len(line) < 1000
        assert HIDDEN.search(line) is None


def test_none_of_them_makes_a_traceback_or_takes_much_memory(runs: tuple[Run, Run, Project]) -> None:
    assert "Traceback" not in runs[0].said
    ends = Counter(row.status for row in TABLE.values())
    # Ten maps with failed tiles have a line, and the last line says how all maps ended.
    most = ends[ExitStatus.UNREACHABLE] + ends[ExitStatus.BUDGET] + min(10, ends[ExitStatus.FAILED_TILES]) + 1
    assert len(runs[0].said.splitlines()) == most
    assert runs[0].peak < MOST_MEMORY


@pytest.mark.parametrize("name", TABLE)
def test_a_later_healthy_harvest_is_as_if_nothing_had_been(runs: tuple[Run, Run, Project], name: str) -> None:
    _, second, project = runs
    assert second.reports[name]["exit_status"] == 0
    assert latest(project, name) == latest(project, UNDISTURBED)


def latest(project: Project, name: str) -> list[tuple[Any, ...]]:
    """Returns the latest version of each tile of a map."""
    rows = project.query(
        "SELECT layers.name, zoom, x, y, sha1, max(versions.day) FROM versions"
        " JOIN layers ON layers.id = versions.layer JOIN maps ON maps.id = layers.map"
        " WHERE maps.name = ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        name,
    )
    return [row[:-1] for row in rows]
