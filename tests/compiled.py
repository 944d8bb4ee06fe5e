"""Shares compiled SQL statements between all databases of a kind.

SQLAlchemy keeps compiled statements for each engine. A program has one engine, but the tests open thousands
of histories, and compiling the statements of a harvest takes as long as the harvest of a small map.
"""

from collections import defaultdict
from typing import Any, Final

from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache


class _OfAKind(LRUCache[Any, Any]):
    """Compiled statements of all engines of a kind. The keys have the server's version and the style of
    parameters in place of the dialect, which each engine has of its own. The version is known from the first
    connection on."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_shared(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_shared(key), value)


def _shared(key: Any) -> tuple[Any, ...]:
    dialect, *rest = key
    return (dialect.server_version_info, dialect.paramstyle, *rest)


_MOST: Final = 5_000
"""How many statements are kept for a kind. SQLAlchemy keeps 500 for an engine."""
_COMPILED: Final = defaultdict[type, _OfAKind](lambda: _OfAKind(_MOST))


def share_statements() -> None:
    """Lets all engines that are made from now on share what they compile. To be called once."""
    make = Engine.__init__

    def made(engine: Engine, pool: Any, dialect: Any, *arguments: Any, **options: Any) -> None:
        make(engine, pool, dialect, *arguments, **options)
        engine._compiled_cache = _COMPILED[type(dialect)]

    Engine.__init__ = made  # type: ignore[method-assign]
