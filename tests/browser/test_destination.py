"""Places as people type them: as the page writes them, as the game does, and as files are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[str, str, list[Any]], list[Any]]

MODULE = "destination.js"


@pytest.mark.parametrize(
    ("typed", "block"),
    [
        ("120 -340", (120, None, -340)),
        (" 120, -340 ", (120, None, -340)),
        ("120/64/-340", (120, 64, -340)),
        ("120.5 64 -340.5", (120.5, 64, -340.5)),
        ("X 120, Z -340", (120, None, -340)),
        ("X 120，Z -340", (120, None, -340)),
        ("x=120 z=-340", (120, None, -340)),
        ("x: 120, y: 64, z: -340", (120, 64, -340)),
        ("/tp @s 120 64 -340", (120, 64, -340)),
        ("/tp 120 64 -340", (120, 64, -340)),
        ("/teleport Alex_7 120 64 -340", (120, 64, -340)),
        ("/minecraft:tp @p 1 2 3", (1, 2, 3)),
        ("/execute in minecraft:overworld run tp @s 120.50 64.00 -340.50 -90.15 12.40", (120.5, 64, -340.5)),
        ("r.0.-1.mca", (256, None, -256)),
        ("r.-2.3", (-768, None, 1792)),
    ],
)
def test_a_place_is_understood(call: Call, typed: str, block: tuple[float, float | None, float]) -> None:
    assert call(MODULE, "blockIn", [[typed]]) == [dict(zip("xyz", block, strict=True))]


@pytest.mark.parametrize(
    "typed",
    [
        *("", "120", "north", "120 -340 7 8", "X 120", "Z 1, X 2", "12e3 4"),
        *(
            "/tp Alex",
            "/tp Alex Steve",
            "/tp @s 1 2",
            "r.1.mca",
            "r.1.5.2.mca",
            "#/1/2/3",
            "https://e.example/1/2",
        ),
    ],
)
def test_what_is_no_place_is_not_taken_for_one(call: Call, typed: str) -> None:
    assert call(MODULE, "blockIn", [[typed]]) == [None]


@pytest.mark.parametrize(
    ("typed", "pair"),
    [
        ("47.37 8.54", [47.37, 8.54]),
        ("47.37000°, 8.54000°", [47.37, 8.54]),
        ("12, -7", [12, -7]),
        ("1 2 3", None),
    ],
)
def test_two_numbers_are_understood_as_the_page_writes_them(
    call: Call, typed: str, pair: list[float] | None
) -> None:
    assert call(MODULE, "pairIn", [[typed]]) == [pair]
