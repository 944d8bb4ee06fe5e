"""The keys of a queue in Redis: all of them are named to the scripts, and stay together in a cluster."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.driving import DAY, Driven, entry
from tests.servers.redis import queue_on
from tileharvest.queue.redis import calls

if TYPE_CHECKING:
    from tests.queue.redis_maps import RedisMap
    from tests.servers.redis import RedisServer

NEXT_DAY = "2021-02-14"
SCRIPTS = Path(calls.__file__).parent / "scripts"


def everything(first: Driven, second: Driven) -> None:
    """Every script, in each of its ways."""
    first.push(*(entry(str(number), number - 4) for number in range(9)), entry("later", due=5.0))
    first.push(entry("1"), entry("other", segment=NEXT_DAY), entry("none", segment="", fingerprint=None))
    leases = first.lease(6)
    first.extend(*leases, now=1.0)
    first.exchange(
        finished=leases[:2],
        failed=[(leases[2], "no")],
        returned=leases[3:4],
        taken_up=[99],
        pushed=[entry("x")],
    )
    second.exchange(3, now=6.0)
    for round_number in range(1, 5):
        second.exchange(2, now=200.0 * round_number)
    second.run(second.queue.workers())
    assert len(first.failures()) > 1
    first.counts()
    first.note(DAY, "depth", "12")
    first.clear_failures()
    first.forget(DAY)
    first.forget_others(1, DAY)
    for worker in (first, second):
        worker.run(worker.queue.join(DAY, "the first"))
    first.exchange(9, pushed=[entry("1"), entry("1")], is_seeded=True)
    for worker in (first, second):
        worker.extend(now=900.0)
        worker.exchange(9, now=900.0)
    assert first.run(first.queue.notes("none")) == {}
    first.note("none", "rate", "1/s")
    first.note("none", "rate", "")
    first.run(first.queue.ending())
    first.run(first.queue.ended())
    first.run(first.queue.join(DAY, "the second"))
    first.push(*(entry(f"many{number}") for number in range(50)))


QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def monitored(server: RedisServer, work: Any) -> list[tuple[str, list[str]]]:
    """Each command meanwhile: who made it (`lua` for scripts), and its words."""
    with socket.socket(socket.AF_UNIX) as listening, listening.makefile("rwb") as lines:
        listening.connect(str(server.socket))
        listening.settimeout(10)
        listening.sendall(b"MONITOR\r\n")
        assert lines.readline() == b"+OK\r\n"
        work()
        server.ask("ECHO", "the end")
        found = []
        while b'"the end"' not in (line := lines.readline()):
            who = line.decode().split("[", 1)[1].split("]", 1)[0].split()[1]
            found.append((who, QUOTED.findall(line.decode())))
        return found


def test_all_keys_of_scripts_begin_as_the_one_that_is_named_and_have_one_slot(world: RedisMap) -> None:
    first, second = (world.worker(expected=5) for _ in range(2))
    touched = set()
    for who, words in monitored(world.server, lambda: everything(first, second)):
        if words[0] in ("EVALSHA", "EVAL"):
            assert words[2:4] == ["1", f"tileharvest:{{{world.name}}}:"]
        elif who == "lua" and words[0] != "TIME":
            assert words[1].startswith(f"tileharvest:{{{world.name}}}:"), words
            touched.add(words[1])
    named = re.findall(r"key\('(\w+):?'", "".join(file.read_text() for file in SCRIPTS.glob("*.lua")))
    assert {key.split(":")[2] for key in touched} == set(named) - {"trial"}
    assert first.counts().dead == 0


def test_every_command_of_the_scripts_is_tried_when_a_queue_is_opened() -> None:
    # That of the start URLs is run by a spider's own client.
    lua = {file.name: file.read_text() for file in SCRIPTS.glob("*.lua") if file.stem != "start_urls"}
    tried = set(re.findall(r"\{ '([A-Z]+)'", lua["open.lua"]))
    used = {word for text in lua.values() for word in re.findall(r"(?:p?call|apply)\('([A-Z]+)'", text)}
    # It has no key for which it could be refused.
    assert used - {"TIME"} == tried


@pytest.mark.parametrize("name", ["", "a{b", "a}b"])
def test_what_would_break_the_hash_tag_is_no_name(server: RedisServer, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name keys"):
        queue_on(server, name)


@pytest.mark.parametrize(
    "options", [{"max_attempts": 0}, {"lease_seconds": 0.0}, {"minus_share": 1}, {"expected": 0}]
)
def test_options_that_would_offer_nothing_are_refused(server: RedisServer, options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"attempts|minus_share"):
        queue_on(server, **options)
