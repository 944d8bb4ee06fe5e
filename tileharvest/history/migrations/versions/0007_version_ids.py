"""Ids of versions with eight bytes on PostgreSQL, where those with four ended at 2,147,483,647.

SQLite has eight anyway.
"""

from typing import Final

from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE versions ALTER COLUMN id TYPE BIGINT")
        op.execute("ALTER SEQUENCE versions_id_seq AS BIGINT")
        op.execute("ALTER TABLE tiles ALTER COLUMN version TYPE BIGINT")
