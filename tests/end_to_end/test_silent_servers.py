"""A database and a store that take connections and never answer: a line says what the harvest waits for."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.end_to_end.bad_input.small_site import FIRST_DAY, address, staged
from tests.servers import rules
from tests.servers.postgresql import postgresql_server

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from tests.end_to_end.forking import Forked
    from tests.servers.misbehaving import Exchange

CRAWL: Final = ("crawl", "overviewer", "-a", "map=small", "-a", f"day={FIRST_DAY}")


def wait_told(process: Forked, what: str) -> str:
    """Returns what stands behind `waiting for WHAT` in the first line of the log that has it."""
    for line in process.stderr:
        if (told := re.search(f"waiting for {what}(.*)", line)) is not None:
            return told[1]
    raise AssertionError(f"no line tells of a wait for {what}")


def test_a_harvest_says_that_it_waits_for_a_silent_database_and_goes_on_with_it(tmp_path: Path) -> None:
    with (
        staged(tmp_path) as stage,
        postgresql_server() as server,
        server.database() as name,
        ExitStack() as freezing,
    ):

        async def freeze_and_answer(exchange: Exchange) -> web.StreamResponse:
            freezing.enter_context(server.frozen())
            return await exchange.send_properly()

        stage.site.rules[address("0")] = rules.first(1, freeze_and_answer)
        with stage.project.running(*CRAWL, "-s", f"DATABASE_URL={server.url(name)}") as process:
            assert wait_told(process, "the history") == "; no end is known"
            freezing.close()
            process.communicate(timeout=240)
            assert process.wait() == 0
        assert server.ask("SELECT count(*) FROM versions", name) == [(20,)]
