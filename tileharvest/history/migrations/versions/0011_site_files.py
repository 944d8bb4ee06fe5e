"""The small files of a map's site keep their past: from which day on each was as it was.

Until now only those were kept that the last harvest has read.
"""

import zlib
from hashlib import sha1
from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0011"
down_revision: Final = "0010"


def upgrade() -> None:
    bodies = op.create_table(
        "site_bodies",
        sa.Column("sha1", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha1", name="pk_site_bodies"),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    query = sa.text(
        "SELECT map, url, etag, last_modified, body,"
        " (SELECT MAX(day) FROM harvests WHERE harvests.map = site_files.map) AS day FROM site_files"
    )
    rows = connection.execute(query.columns(day=sa.Date())).all()
    op.drop_table("site_files")
    files = op.create_table(
        "site_files",
        sa.Column("map", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("sha1", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["map"], ["maps.id"], name="fk_site_files_map_maps"),
        sa.ForeignKeyConstraint(["sha1"], ["site_bodies.sha1"], name="fk_site_files_sha1_site_bodies"),
        sa.PrimaryKeyConstraint("map", "url", "day", name="pk_site_files"),
        sqlite_with_rowid=False,
    )
    known = {_name(row.body): bytes(row.body) for row in rows if row.day is not None}
    if known:
        connection.execute(
            sa.insert(bodies), [{"sha1": name, "body": zlib.compress(body)} for name, body in known.items()]
        )
        connection.execute(
            sa.insert(files),
            [
                {
                    "map": row.map,
                    "url": row.url,
                    "day": row.day,
                    "etag": row.etag,
                    "last_modified": row.last_modified,
                    "sha1": _name(row.body),
                }
                for row in rows
                if row.day is not None
            ],
        )


def _name(body: bytes) -> str:
    return sha1(body, usedforsecurity=False).hexdigest()
