"""What a map has cost on each day, whatever harvest it was for.

Of older harvests it is known only for their own day.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"


def upgrade() -> None:
    op.create_table(
        "spending",
        sa.Column("map", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("spared_bytes", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("map", "day", name="pk_spending"),
        sa.ForeignKeyConstraint(["map"], ["maps.id"], name="fk_spending_map_maps"),
        sqlite_with_rowid=False,
    )
    op.execute("""
        INSERT INTO spending (map, day, requests, received_bytes, stored_bytes, spared_bytes, seconds)
        SELECT map, day,
               sum(requests), sum(received_bytes), sum(stored_bytes), sum(spared_bytes), sum(seconds)
        FROM harvests GROUP BY map, day
    """)
