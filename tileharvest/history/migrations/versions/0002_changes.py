"""The changes of each block and day, and what each harvest stored; both filled from the versions.

Reads every version twice: some seconds for a million.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

# A block's centre is that of the tile three levels coarser: as wide as 2 << (3 - zoom) grid units.
# Shifting to the right rounds downwards, left and below of the centre of the map too.
FILL_CHANGES: Final = """
    INSERT INTO changes (layer, zoom, x, y, day, tiles)
    SELECT layer, zoom, block_x, block_y, day, count(*)
    FROM (
        SELECT
            layer,
            zoom,
            ((x >> (4 - zoom)) << (4 - zoom)) + (1 << (3 - zoom)) AS block_x,
            ((y >> (4 - zoom)) << (4 - zoom)) + (1 << (3 - zoom)) AS block_y,
            day
        FROM versions
    ) AS changed
    GROUP BY layer, zoom, block_x, block_y, day
"""

# Which harvest put an image into the store was not written down: the first that has it is the likeliest.
FILL_STORED_BYTES: Final = """
    UPDATE harvests
    SET stored_bytes = stored.bytes
    FROM (
        SELECT harvest, sum(size) AS bytes
        FROM (
            SELECT min(harvest) AS harvest, min(size) AS size
            FROM versions
            WHERE sha1 IS NOT NULL
            GROUP BY sha1, extension
        ) AS images
        GROUP BY harvest
    ) AS stored
    WHERE stored.harvest = harvests.id
"""


def upgrade() -> None:
    _add_stored_bytes()
    op.create_index("ix_harvests_map_day", "harvests", ["map", "day"])
    _create_changes()


def _add_stored_bytes() -> None:
    # No batch mode, which would drop and rebuild a table that all versions refer to.
    column = sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    op.add_column("harvests", column)
    op.execute(FILL_STORED_BYTES)


def _create_changes() -> None:
    op.create_table(
        "changes",
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("zoom", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("x", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("y", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("tiles", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("layer", "zoom", "x", "y", "day", name="pk_changes"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_changes_layer_layers"),
        sqlite_with_rowid=False,
    )
    op.execute(FILL_CHANGES)
    op.create_index("ix_changes_layer_zoom_day", "changes", ["layer", "zoom", "day"])
