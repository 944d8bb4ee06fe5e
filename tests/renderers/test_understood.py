"""What the servers that renderers bring answer for a missing tile, and what else they say."""

import io
from typing import Final

import pytest
from PIL import Image as Pillow

from tests.renderers.sites import PAGE
from tileharvest.renderers.registry import RENDERERS
from tileharvest.tiles.verdict import Answer
from tileharvest.tiles.versions import Validator


def image(colour: str) -> bytes:
    written = io.BytesIO()
    Pillow.new("RGBA", (128, 128), colour).save(written, "PNG")
    return written.getvalue()


BLANK, DRAWN = image("#00000000"), image("#ff000080")
MISSING, NOTHING = Answer(404), Validator()
MODIFIED: Final = "Mon, 14 Oct 2013 19:50:28 GMT"
THERE = Validator('"1747239314000"', MODIFIED)
HASH, SHARED = Validator('"305419896"'), Validator('"1234567890"', MODIFIED)

REGIONS: Final = [
    # `IntegratedServer.java` of squaremap, `HttpdServer.java` of Pl3xMap: 200, no bytes and no ETag.
    (Answer(200, NOTHING, 0), MISSING),
    (Answer(200, NOTHING, None), None),
    (Answer(200, THERE, 0), None),
    (Answer(200, THERE, 672), None),
    (Answer(304, NOTHING, 0), None),
    (Answer(503, NOTHING, 0), None),
]
ANSWERS: Final = {
    # A plain file server's answers are taken as they are.
    "overviewer": [(answer, None) for answer in (Answer(200, THERE, 672), Answer(404), Answer(503))],
    "squaremap": REGIONS,
    "pl3xmap": REGIONS,
    "bluemap": [(Answer(204), MISSING), *((Answer(status), None) for status in (200, 304, 404, 500))],
    "dynmap": [
        # `MapStorageResourceHandler.java`, where `tr == null`: the ETag of 0x12345678, and the blank image.
        (Answer(200, HASH, len(BLANK)), MISSING),
        (Answer(200, Validator('W/"305419896"'), len(BLANK), BLANK), MISSING),
        # Older servers and scripts send it without an ETag. Without the bytes nobody knows.
        (Answer(200, length=len(BLANK)), None),
        (Answer(200, length=len(BLANK), body=BLANK), MISSING),
        (Answer(200, length=len(DRAWN), body=DRAWN), None),
        # A blank image that a host keeps as a file is a tile.
        (Answer(200, Validator('"5f-2a0"', MODIFIED), len(BLANK), BLANK), None),
        # `MySQL_tiles.php` and its like, where nothing is found.
        (Answer(302, location="../images/blank.png"), MISSING),
        (Answer(302, location=f"{PAGE}images/blank.png"), MISSING),
        (Answer(301, location=f"{PAGE}new/0_0.png"), None),
        # A hash that several tiles share tells no state (`FileTreeMapStorage.java`).
        (Answer(200, SHARED, 672), Answer(200, Validator(None, MODIFIED), 672)),
        (Answer(200, Validator('W/"-17"', MODIFIED), 672), Answer(200, Validator(None, MODIFIED), 672)),
        # A hash that a database keeps for each tile stands between single quotes, and one alone is left.
        (Answer(200, Validator("'1234567890'", MODIFIED), 672), None),
        (Answer(200, Validator('"1234567890"'), 672), None),
    ],
}
"""Answers by renderer, each with what it means. None: as it is."""


@pytest.mark.parametrize(
    ("renderer", "answer", "meant"),
    [(renderer, *one) for renderer, answers in ANSWERS.items() for one in answers],
)
def test_an_answer_is_understood_as_a_file_server_would_have_given_it(
    renderer: str, answer: Answer, meant: Answer | None
) -> None:
    assert RENDERERS[renderer].understood(answer) == (meant or answer)
