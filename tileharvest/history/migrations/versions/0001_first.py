"""The first tables. No way down: the program never throws away what it recorded."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    _create_names()
    _create_harvests()
    _create_harvest_layers()
    _create_harvest_counts()
    _create_versions()
    _create_tiles()


def _create_names() -> None:
    op.create_table(
        "maps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_maps"),
        sa.UniqueConstraint("name", name="uq_maps_name"),
    )
    op.create_table(
        "layers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("map", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_layers"),
        sa.UniqueConstraint("map", "name", name="uq_layers_map_name"),
        sa.ForeignKeyConstraint(["map"], ["maps.id"], name="fk_layers_map_maps"),
    )


def _create_harvests() -> None:
    op.create_table(
        "harvests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("map", sa.Integer(), nullable=False),
        sa.Column("segment", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("renderer", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_harvests"),
        sa.CheckConstraint("(ended IS NULL) = (reason IS NULL)", name=op.f("ck_harvests_end")),
        sa.ForeignKeyConstraint(["map"], ["maps.id"], name="fk_harvests_map_maps"),
    )
    op.create_index(
        "ix_harvests_unfinished",
        "harvests",
        ["map"],
        unique=True,
        sqlite_where=sa.text("ended IS NULL"),
        postgresql_where=sa.text("ended IS NULL"),
    )


def _create_harvest_layers() -> None:
    op.create_table(
        "harvest_layers",
        sa.Column("harvest", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("image_extension", sa.Text(), nullable=False),
        sa.Column("tile_size", sa.Integer(), nullable=False),
        sa.Column("north_direction", sa.Integer(), nullable=False),
        sa.Column("world", sa.Text(), nullable=True),
        sa.Column("background", sa.Text(), nullable=True),
        sa.Column("spawn_x", sa.Integer(), nullable=True),
        sa.Column("spawn_y", sa.Integer(), nullable=True),
        sa.Column("spawn_z", sa.Integer(), nullable=True),
        sa.Column("rendered", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("harvest", "layer", name="pk_harvest_layers"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_harvest_layers_harvest_harvests"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_harvest_layers_layer_layers"),
        sqlite_with_rowid=False,
    )


def _create_harvest_counts() -> None:
    op.create_table(
        "harvest_counts",
        sa.Column("harvest", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("tiles", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("harvest", "layer", "outcome", name="pk_harvest_counts"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_harvest_counts_harvest_harvests"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_harvest_counts_layer_layers"),
        sqlite_with_rowid=False,
    )


def _create_versions() -> None:
    op.create_table(
        "versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("layer", sa.Integer(), nullable=False),
        sa.Column("zoom", sa.Integer(), nullable=False),
        sa.Column("x", sa.Integer(), nullable=False),
        sa.Column("y", sa.Integer(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("sha1", sa.Text(), nullable=True),
        sa.Column("extension", sa.Text(), nullable=True),
        sa.Column("size", sa.Integer(), nullable=True),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("harvest", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_versions"),
        sa.UniqueConstraint("layer", "zoom", "x", "y", "day", name="uq_versions_layer_zoom_x_y_day"),
        sa.CheckConstraint(
            "(sha1 IS NULL) = (extension IS NULL) AND (sha1 IS NULL) = (size IS NULL)",
            name=op.f("ck_versions_image"),
        ),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_versions_layer_layers"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_versions_harvest_harvests"),
    )


def _create_tiles() -> None:
    op.create_table(
        "tiles",
        sa.Column("layer", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("zoom", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("x", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("y", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("harvest", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("layer", "zoom", "x", "y", name="pk_tiles"),
        sa.ForeignKeyConstraint(["layer"], ["layers.id"], name="fk_tiles_layer_layers"),
        sa.ForeignKeyConstraint(["version"], ["versions.id"], name="fk_tiles_version_versions"),
        sa.ForeignKeyConstraint(["harvest"], ["harvests.id"], name="fk_tiles_harvest_harvests"),
        sqlite_with_rowid=False,
    )
