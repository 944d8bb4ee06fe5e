"""What the walk remembers of each tile, what it rests on, and how each harvest walked.

What older harvests asked is not known, so nothing is remembered until the next one.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0005"
down_revision: Final = "0004"


def upgrade() -> None:
    # Without batch mode, so that no table is rebuilt that others refer to.
    for name in ("walk", "walk_reason", "kept"):
        op.add_column("harvests", sa.Column(name, sa.Text(), nullable=True))
    _create_validators()
    _create_proofs()


def _create_validators() -> None:
    op.create_table(
        "validators",
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("zoom", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("x", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("y", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("harvest", sa.Integer(), nullable=False),
        sa.Column("whole", sa.Boolean(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("layer", "zoom", "x", "y", name="pk_validators"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_validators_layer_layers"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_validators_harvest_harvests"),
        sa.ForeignKeyConstraint(["skipped"], ["harvests.id"], name="fk_validators_skipped_harvests"),
        sqlite_with_rowid=False,
    )


def _create_proofs() -> None:
    op.create_table(
        "proofs",
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("harvest", sa.Integer(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("pairs", sa.Integer(), nullable=False),
        sa.Column("broken", sa.Integer(), nullable=False),
        sa.Column("undated", sa.Integer(), nullable=False),
        sa.Column("span", sa.Float(), nullable=False),
        sa.Column("withdrawn", sa.Text(), nullable=True),
        sa.Column("withdrawn_day", sa.Date(), nullable=True),
        sa.PrimaryKeyConstraint("layer", name="pk_proofs"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_proofs_layer_layers"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_proofs_harvest_harvests"),
        sa.CheckConstraint(
            "(withdrawn IS NULL) = (withdrawn_day IS NULL)", name=op.f("ck_proofs_withdrawal")
        ),
        sqlite_with_rowid=False,
    )
