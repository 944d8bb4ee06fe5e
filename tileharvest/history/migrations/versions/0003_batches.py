"""The last batch of each process, so that one whose commit got no answer is not counted twice."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("harvest", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("harvest", "worker", name="pk_batches"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_batches_harvest_harvests"),
        sqlite_with_rowid=False,
    )
