"""The figures of a Redis: what it had to do, by its own count."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer

_OURS: Final = frozenset({"info", "config|resetstat", "flushall"})
"""The bench's own commands, which `calls` leaves out."""


@dataclass(slots=True)
class RedisFigures:
    """The figures of the time between two looks."""

    cpu: float = 0.0
    """Seconds of CPU, user and system, threads included."""
    reads: int = 0
    """How often the server read from a connection.

    Each client waits for its answer before it asks again, so these are the round trips. Some more reads come
    from questions that do not fit into one."""
    commands: int = 0
    """The commands that were executed, those within scripts and transactions included."""
    calls: dict[str, int] = field(default_factory=dict)
    """The number of executed commands by name, such as `evalsha`."""


@contextmanager
def counted(server: RedisServer) -> Iterator[RedisFigures]:
    """Empties the server, and fills in the figures when the block ends."""
    figures = RedisFigures()
    server.ask("FLUSHALL")
    server.ask("CONFIG", "RESETSTAT")
    before = _cpu(server)
    yield figures
    figures.cpu = _cpu(server) - before
    stats = server.ask("INFO", "stats")
    figures.reads, figures.commands = stats["total_reads_processed"], stats["total_commands_processed"]
    figures.calls = _calls(server.ask("INFO", "commandstats"))


def _cpu(server: RedisServer) -> float:
    told = server.ask("INFO", "cpu")
    return float(told["used_cpu_user"] + told["used_cpu_sys"])


def _calls(told: dict[str, Any]) -> dict[str, int]:
    calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in told.items()}
    return {
        name: calls[name] for name in sorted(calls, key=calls.__getitem__, reverse=True) if name not in _OURS
    }
