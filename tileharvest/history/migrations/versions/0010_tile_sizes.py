"""Width and height of each layer's tiles.

Until now one number was kept of both: all tiles were taken for squares.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0010"
down_revision: Final = "0009"


def upgrade() -> None:
    # What Alembic has for it copies the table in SQLite.
    op.execute("ALTER TABLE harvest_layers RENAME COLUMN tile_size TO tile_width")
    op.add_column(
        "harvest_layers", sa.Column("tile_height", sa.Integer(), nullable=False, server_default=sa.text("0"))
    )
    op.execute("UPDATE harvest_layers SET tile_height = tile_width")
