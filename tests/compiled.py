"""Shares compiled SQL statements between all databases of a kind.

SQLAlchemy keeps compiled statements for each engine. A program has one engine, but the tests open thousands
of histories, and compiling the statements of a harvest takes as long as the harvest of a small map.
"""

from typing import Any, Final

from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

_COMPILED: Final[LRUCache[Any, Any]] = LRUCache(10_000)


def share_statements() -> None:
    """Lets all engines that are made from now on share what they compile. To be called once."""
    make = Engine.__init__

    def made(engine: Engine, *arguments: Any, **options: Any) -> None:
        make(engine, *arguments, **options)
        engine._compiled_cache = _COMPILED

    Engine.__init__ = made  # type: ignore[method-assign]
    # The keys have the dialect, of which each engine has its own. All of a kind compile alike.
    DefaultDialect.__hash__ = lambda dialect: hash(type(dialect))  # type: ignore[method-assign]
    DefaultDialect.__eq__ = lambda one, other: type(one) is type(other)  # type: ignore[method-assign]
