"""Where each layer draws blocks, and how its tiles nest.

Until now all layers were Overviewer's, of which size and direction tell it.
"""

import json
from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0008"
down_revision: Final = "0007"

_TURNED: Final = (
    ((1, 0, 0), (0, 1, 0)),
    ((0, -1, 16), (1, 0, 0)),
    ((-1, 0, 16), (0, -1, 16)),
    ((0, 1, 0), (-1, 0, 16)),
)


def upgrade() -> None:
    op.add_column("layers", sa.Column("factor", sa.Integer(), nullable=False, server_default=sa.text("2")))
    op.add_column("harvest_layers", sa.Column("projection", sa.Text(), nullable=True))
    connection = op.get_bind()
    kinds = connection.execute(sa.text("SELECT DISTINCT tile_size, north_direction FROM harvest_layers"))
    for tile_size, north in kinds.all():
        connection.execute(
            sa.text(
                "UPDATE harvest_layers SET projection = :projection"
                " WHERE tile_size = :tile_size AND north_direction = :north"
            ),
            {"projection": _projection(tile_size, north), "tile_size": tile_size, "north": north},
        )


def _projection(tile_size: int, north: int) -> str:
    (xe, xs, x0), (ze, zs, z0) = _TURNED[north]
    block, step = 24 / tile_size, 12 / tile_size
    x = (block * (xe + ze), 0, block * (xs + zs), block * (x0 + z0) - 1)
    y = (step * (xe - ze), block, step * (xs - zs), step * (x0 - z0) - 256 * block)
    return json.dumps({"x": x, "y": y, "height": 64}, separators=(",", ":"))
