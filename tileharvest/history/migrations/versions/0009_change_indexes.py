"""Change indexes, what each harvest has read of them, and the files that say what a site has.

Nothing is known of them for harvests of earlier releases.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0009"
down_revision: Final = "0008"


def upgrade() -> None:
    op.create_table(
        "change_indexes",
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("harvest", sa.Integer(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("confirmed", sa.Integer(), nullable=False),
        sa.Column("withdrawn", sa.Text(), nullable=True),
        sa.Column("withdrawn_day", sa.Date(), nullable=True),
        sa.CheckConstraint(
            "(withdrawn IS NULL) = (withdrawn_day IS NULL)", name=op.f("ck_change_indexes_withdrawal")
        ),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_change_indexes_layer_layers"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_change_indexes_harvest_harvests"),
        sa.PrimaryKeyConstraint("layer", name="pk_change_indexes"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "index_readings",
        sa.Column("harvest", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ground", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_index_readings_harvest_harvests"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_index_readings_layer_layers"),
        sa.PrimaryKeyConstraint("harvest", "layer", name="pk_index_readings"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "site_files",
        sa.Column("map", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["map"], ["maps.id"], name="fk_site_files_map_maps"),
        sa.PrimaryKeyConstraint("map", "url", name="pk_site_files"),
        sqlite_with_rowid=False,
    )
