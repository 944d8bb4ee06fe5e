"""What a person is told when Redis cannot be used, and what is waited for instead."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004
    NoPermissionError,
    ResponseError,
    TimeoutError,  # noqa: A004
)

from tests.queue.redis_maps import RedisMap
from tests.scheduler.driving import Driven, entry
from tests.servers.redis import queue_on, redis_server
from tileharvest.errors import QueueError
from tileharvest.queue.port import Changes
from tileharvest.queue.redis.link import case_of, may_pass
from tileharvest.queue.redis.queue import RedisQueue
from tileharvest.queue.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer
    from tileharvest.queue.port import Exchange

PASSWORD = "wonderful/horse@battery:staple"
ESCAPED = "wonderful%2Fhorse%40battery%3Astaple"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One for each test: they change its settings."""
    with redis_server() as running:
        yield running


def at(server: RedisServer, **options: Any) -> Driven:
    """Over TCP, with little patience."""
    options = {"patience": 0.05, "parameters": {"url": server.url}} | options
    return Driven(lambda: queue_on(server, **options))


def refusal(driven: Driven) -> str:
    with pytest.raises(QueueError) as refused:
        driven.open()
    driven.close()
    return str(refused.value)


# When it is opened


def test_a_server_that_is_not_there(server: RedisServer) -> None:
    server.stop()
    assert refusal(at(server)) == (
        f"the queue of map 'world' at redis://127.0.0.1:{server.port}/0 does not answer (Error 111"
        f" connecting to 127.0.0.1:{server.port}. Connect call failed ('127.0.0.1', {server.port})); no"
        " request in it was lost; see that it runs and can be reached, and run again"
    )


def test_a_socket_that_is_not_there(server: RedisServer) -> None:
    server.stop()
    driven = at(server, parameters={"url": server.socket_url})
    assert f"the queue of map 'world' at unix://{server.socket} does not answer" in refusal(driven)


def test_a_host_that_is_not_there(server: RedisServer) -> None:
    driven = at(server, parameters={"url": "redis://nowhere.invalid/3"})
    assert "at redis://nowhere.invalid:6379/3 does not answer" in refusal(driven)


@pytest.mark.parametrize("login", ["", f":{ESCAPED}x@", f"somebody:{ESCAPED}@"])
def test_a_login_that_is_refused(server: RedisServer, login: str, caplog: pytest.LogCaptureFixture) -> None:
    server.ask("CONFIG", "SET", "requirepass", PASSWORD)
    told = refusal(at(server, parameters={"url": server.url.replace("//", f"//{login}")}, patience=60.0))
    assert "refuses the login (" in told
    assert "; no request in it was lost; correct name and password in REDIS_URL or REDIS_PARAMS" in told
    assert not secrets_in(told)
    # It is not tried again, which would be told.
    assert caplog.messages == []


def test_a_user_who_may_not_run_scripts(server: RedisServer) -> None:
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", "-@scripting")
    login = {"url": server.url.replace("//", "//worker:secret@")}
    told = refusal(at(server, parameters=login))
    assert "does not allow its user something (" in told
    assert told.endswith("; let an administrator allow it: ~tileharvest:* +@all -@admin")


@pytest.mark.parametrize(
    "rights", ["+@all -zpopmin", "+@all -hincrby", "+@all -unlink", "+@read +@scripting"]
)
def test_a_user_who_may_not_use_all_that_scripts_need_changes_nothing(
    server: RedisServer, rights: str
) -> None:
    with RedisMap(server) as world:
        world.worker().push(entry("1"))
    before = sorted(server.ask("KEYS", "*"))
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", *rights.split())
    login = {"url": server.url.replace("//", "//worker:secret@")}
    told = refusal(at(server, parameters=login))
    assert "does not allow its user" in told
    assert sorted(server.ask("KEYS", "*")) == before


def test_a_user_who_may_use_these_keys_only_can_work(server: RedisServer) -> None:
    rights = ("~tileharvest:*", "+@all", "-@admin", "-@dangerous")
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", *rights)
    server.ask("CONFIG", "SET", "requirepass", PASSWORD)
    login = {"url": server.url.replace("//", "//worker:secret@")}
    with at(server, parameters=login).open() as queue:
        queue.push(entry("1"))
        assert queue.bodies() == ["1"]


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_may_throw_requests_away(server: RedisServer, policy: str) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", policy)
    with at(server).open() as queue:
        assert queue.push(entry("1")).duplicates == 0
    server.ask("CONFIG", "SET", "maxmemory", "100mb")
    told = refusal(at(server))
    assert f"may throw requests away when its memory is full (maxmemory-policy {policy}); nothing" in told


def test_a_queue_of_another_version(server: RedisServer) -> None:
    server.ask("HSET", "tileharvest:{world}:numbers", "format", "99")
    assert refusal(at(server)).endswith(
        " was written by another version of TileHarvest (its format is 99, this one's 3); nothing was"
        " changed; finish it with that version or start afresh with -a fresh=1"
    )
    assert server.ask("KEYS", "*") == [b"tileharvest:{world}:numbers"]


def test_what_cannot_be_opened_can_be_begun_afresh(server: RedisServer) -> None:
    server.ask("HSET", "tileharvest:{world}:numbers", "format", "99")
    driven = at(server)
    with pytest.raises(QueueError):
        driven.open()
    driven.run(driven.queue.discard())
    with driven.open() as queue:
        assert queue.push(entry("1")).duplicates == 0


# While it is open


def test_a_server_that_is_gone_is_waited_for(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with at(server, patience=10.0).open() as queue:
        queue.push(entry("1"))
        server.stop()

        async def push() -> Exchange:
            asyncio.get_running_loop().call_later(0.2, server.start)
            return await queue.queue.exchange(Changes(pushed=[entry("2")]), 0, 0.0)

        assert queue.run(push()).duplicates == 0
    assert [message.split(";")[-1] for message in caplog.messages] == [" trying again"]


def test_a_server_that_does_not_come_back(server: RedisServer) -> None:
    with at(server).open() as queue:
        queue.push(entry("1"))
        server.stop()
        for work in (lambda: queue.push(entry("2")), queue.counts, queue.extend, queue.failures):
            with pytest.raises(
                QueueError, match=r"does not answer .* no request in it was lost; see that it"
            ):
                work()


def test_a_server_that_answers_no_more(server: RedisServer) -> None:
    parameters = {"url": server.url, "socket_timeout": 0.5}
    with at(server, parameters=parameters).open() as queue:
        server.pause()
        with pytest.raises(QueueError, match=r"does not answer .*[Tt]imeout"):
            queue.counts()
        server.resume()


def test_a_call_gives_up_after_its_patience_and_the_time_limit_of_the_last_attempt() -> None:
    assert RedisQueue({"socket_timeout": 30}, "world", patience=60.0).patience == 90.0
    assert RedisQueue({}, "world", patience=60.0).patience == 60.0


def test_a_server_without_memory_takes_nothing_and_loses_nothing(server: RedisServer) -> None:
    with at(server).open() as queue:
        queue.push(entry("1"))
        server.ask("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(
            QueueError, match=r"is out of memory \(.* give it more \(maxmemory\), and run again"
        ):
            queue.push(entry("2"), entry("3", segment="other"))
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert queue.counts().seen == 1
        assert queue.bodies() == ["1"]


def test_a_replica_is_waited_for_and_then_refused(server: RedisServer) -> None:
    with at(server).open() as queue:
        queue.push(entry("1"))
        server.ask("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(QueueError, match=r"cannot be written .*; name the primary in REDIS_URL"):
            queue.push(entry("2"))
        server.ask("REPLICAOF", "NO", "ONE")
        assert queue.push(entry("2")).duplicates == 0


def test_a_replica_that_becomes_the_primary_goes_on(server: RedisServer) -> None:
    with at(server, patience=10.0).open() as queue:
        server.ask("REPLICAOF", "127.0.0.1", "1")
        becoming = threading.Timer(0.1, lambda: server.ask("REPLICAOF", "NO", "ONE"))
        becoming.start()
        try:
            assert queue.push(entry("1")).duplicates == 0
        finally:
            becoming.join()


def test_closing_without_a_server_is_harmless(server: RedisServer) -> None:
    queue = at(server).open()
    server.stop()
    queue.close()


@pytest.mark.parametrize("said", ["unable to perform operation; the handler is closed", "no connection"])
def test_a_connection_that_the_loop_knows_to_be_closed_is_made_again(server: RedisServer, said: str) -> None:
    """uvloop says the first if a node of a cluster was killed."""
    tries = []

    async def once_more(client: object) -> int:
        tries.append(client)
        if len(tries) == 1:
            raise RuntimeError(said)
        return len(tries)

    with at(server, patience=5.0).open() as queue:
        if "handler" in said:
            assert queue.run(queue.queue._link.attempt(once_more)) == 2
        else:
            with pytest.raises(RuntimeError, match="no connection"):
                queue.run(queue.queue._link.attempt(once_more))


# In words


@pytest.mark.parametrize(
    ("error", "passes", "wanted"),
    [
        (BusyLoadingError("Redis is loading", status_code="LOADING"), True, "still reads its data"),
        (ConnectionError("Connection closed by server."), True, "does not answer"),
        (TimeoutError("Timeout reading from x"), True, "does not answer"),
        (ConnectionError("max number of clients reached", status_code="ERR"), True, "does not answer"),
        (
            ResponseError("The user executing the script can't run this command", status_code="ERR"),
            False,
            "does not allow its user something",
        ),
        (OSError("no route"), False, "does not answer"),
        (ClusterDownError("Hash slot not served", status_code="CLUSTERDOWN"), True, "does not answer"),
        (ResponseError("BUSY Redis is busy running a script."), True, "is kept busy by a script"),
        (ResponseError("MISCONF Redis is configured to save"), False, "cannot write to its disk"),
        (NoPermissionError("no permissions", status_code="NOPERM"), False, "does not allow its user"),
        (AskError("1 127.0.0.1:1", status_code="ASK"), False, "failed"),
        (ResponseError("MOVED 1 127.0.0.1:1"), False, "is a node of a cluster"),
        (ResponseError("unknown command 'EVALSHA'"), False, "Redis must be of version 6 or newer"),
        (
            ConnectionError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"),
            False,
            "does not answer",
        ),
    ],
)
def test_each_error_has_its_words(error: Exception, passes: bool, wanted: str) -> None:
    told = sentence(case_of(error), "the queue", "the server's words")
    assert wanted in told
    assert "(the server's words); no request in it was lost; " in told
    assert may_pass(error) is passes


def secrets_in(text: str) -> list[str]:
    return [part for part in ("wonderful", "horse", "battery", "staple") if part in text]
