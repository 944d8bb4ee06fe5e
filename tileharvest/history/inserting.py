"""Inserting rows that may be there already, in either kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from sqlalchemy import Table

Insert: TypeAlias = sqlite.Insert | postgresql.Insert


def insert_into(dialect: str, table: Table) -> Insert:
    """An INSERT that can say what happens to rows which are there already."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
