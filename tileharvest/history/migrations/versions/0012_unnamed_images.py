"""Images that no version names any more are noted, so that they can be removed from the store."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0012"
down_revision: Final = "0011"


def upgrade() -> None:
    op.create_table(
        "unnamed_images",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("noted", sa.DateTime(timezone=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_unnamed_images"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "identity",
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_identity"),
        sqlite_with_rowid=False,
    )
