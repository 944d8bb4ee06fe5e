"""What SQLAlchemy has compiled for one database of a kind serves all others of the process.

SQLAlchemy keeps it for each engine. A program has one, but the tests open thousands of histories. To compile
the statements of a harvest takes as long as a small map's harvest itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache


class _OfAKind(LRUCache[Any, Any]):
    """Compiled statements, without the dialect of one engine in their keys: those of a kind are alike, where
    the servers' versions and the style of parameters are. The version is known from the first connection on.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_shared(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_shared(key), value)


def _shared(key: Any) -> tuple[Any, ...]:
    dialect, *rest = key
    return (dialect.server_version_info, dialect.paramstyle, *rest)


_MOST: Final = 5_000
"""Statements that are kept of a kind; one of SQLAlchemy's engines keeps 500."""
_COMPILED: Final = defaultdict[type, _OfAKind](lambda: _OfAKind(_MOST))


def share_statements() -> None:
    """Lets all engines that are made from now on share what they compile. To be called once."""
    make = Engine.__init__

    def made(engine: Engine, pool: Any, dialect: Any, *arguments: Any, **options: Any) -> None:
        make(engine, pool, dialect, *arguments, **options)
        engine._compiled_cache = _COMPILED[type(dialect)]

    Engine.__init__ = made  # type: ignore[method-assign]
