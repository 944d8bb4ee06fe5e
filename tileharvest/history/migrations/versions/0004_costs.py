"""What each harvest expects, spared and worked, why it was stopped, and how often a tile has failed in a row.

Reads the tiles once: those that failed last have failed in one harvest, as far as can be known.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"


def upgrade() -> None:
    # With defaults and without batch mode, so that no table is rebuilt that others refer to.
    for column in (
        sa.Column("expected", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("seconds", sa.Float(), nullable=False, server_default=sa.text("0")),
        sa.Column("spared_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("stopped", sa.Text(), nullable=True),
    ):
        op.add_column("harvests", column)
    failures = sa.Column("failures", sa.Integer(), nullable=False, server_default=sa.text("0"))
    op.add_column("tiles", failures)
    op.execute("UPDATE tiles SET failures = 1 WHERE outcome = 'fail'")
