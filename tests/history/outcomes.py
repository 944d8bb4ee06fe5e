"""The results of single tiles in SQL, for tests that read the tables as they are."""

from typing import Final

from tileharvest.history.schema import MASKS

_OUTCOME: Final = " ".join(f"WHEN {name} >> bit & 1 = 1 THEN '{one.value}'" for one, name in MASKS.items())

RESULTS: Final = f"""
    WITH RECURSIVE bits (bit) AS (SELECT 0 UNION ALL SELECT bit + 1 FROM bits WHERE bit < 63),
    places AS (
        SELECT layer, zoom, harvest, CASE {_OUTCOME} END AS outcome,
            (2 * ("column" * 8 + bit % 8) + 1) << -zoom AS x,
            -((2 * ("row" * 8 + bit / 8) + 1) << -zoom) AS y
        FROM blocks, bits
    ),
    results AS (
        SELECT places.*, failures.reason FROM places
        LEFT JOIN failures ON failures.layer = places.layer AND failures.zoom = places.zoom
            AND failures.x = places.x AND failures.y = places.y
        WHERE outcome IS NOT NULL
    )
"""
"""Comes before a SELECT, which can read `results`: layer, zoom, x, y, harvest, outcome and reason of each
tile that the last harvest in its block has asked."""
