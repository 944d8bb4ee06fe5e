"""Tests of the test servers themselves: other tests are only as true as the servers they run against."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.servers import rules
from tests.servers.nginx import HEAD_REFUSED, NEVER_304, WITHOUT_ETAG
from tests.servers.nginx import nginx as nginx_server
from tests.servers.postgresql import USER
from tests.servers.published import published, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.servers.misbehaving import Misbehaving
    from tests.servers.nginx import Nginx
    from tests.servers.postgresql import PostgresqlServer

IMAGE = bytes(range(256)) * 4
CHANGED_AT = 1_600_000_000


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


def ask(url: str, path: str = "/a.png", method: str = "GET", *, timeout: float = 10, **headers: str) -> Reply:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)
    try:
        connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        reply = connection.getresponse()
        return Reply(reply.status, dict(reply.getheaders()), reply.read())
    finally:
        connection.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.png").write_bytes(IMAGE)
    os.utime(site / "a.png", (CHANGED_AT, CHANGED_AT))
    return site


@pytest.fixture
def site(misbehaving: Callable[[Path], Misbehaving], folder: Path) -> Misbehaving:
    return misbehaving(folder)


# ------------------------------------------------------------------------------------------- nginx


def test_nginx_serves_the_folder(nginx: Callable[..., Nginx], folder: Path) -> None:
    assert ask(nginx(folder).url).body == IMAGE


def test_nginx_makes_its_etag_of_time_and_size(nginx: Callable[..., Nginx], folder: Path) -> None:
    assert ask(nginx(folder).url).headers["ETag"] == f'"{CHANGED_AT:x}-{len(IMAGE):x}"'


def test_nginx_refuses_head_when_told(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder, location=HEAD_REFUSED)
    assert (ask(server.url, method="HEAD").status, ask(server.url).status) == (405, 200)


def test_nginx_gives_no_etag_when_told(nginx: Callable[..., Nginx], folder: Path) -> None:
    headers = ask(nginx(folder, server=WITHOUT_ETAG).url).headers
    assert ("ETag" in headers, "Last-Modified" in headers) == (False, True)


def test_nginx_never_answers_304_when_told(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder, server=NEVER_304)
    since = ask(server.url).headers["Last-Modified"]
    assert ask(server.url, If_Modified_Since=since).status == 200


def test_nginx_logs_each_request_before_the_log_is_read(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder)
    for number in range(20):
        ask(server.url, f"/a.png?c={number}", User_Agent="someone", If_None_Match='"x"')
    lines = list(server.log())
    assert [line.query for line in lines] == [f"c={number}" for number in range(20)]
    line = lines[0]
    assert (line.method, line.path, line.status, line.size) == ("GET", "/a.png", 200, len(IMAGE))
    assert (line.agent, line.if_none_match) == ("someone", '"x"')


def test_nginx_log_times_are_those_of_the_requests(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder)
    reply = ask(server.url)
    [line] = server.log()
    answered = parsedate_to_datetime(reply.headers["Date"]).timestamp()
    assert 0 <= line.time - answered < 2


def test_nginx_log_can_be_cleared(nginx: Callable[..., Nginx], folder: Path) -> None:
    server = nginx(folder)
    ask(server.url)
    server.clear_log()
    ask(server.url, "/b.png")
    assert [line.path for line in server.log()] == ["/b.png"]


def test_nginx_is_gone_after_a_failure(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), nginx_server(folder) as server:
        raise ZeroDivisionError
    assert server.process.returncode is not None
    with pytest.raises(ConnectionRefusedError):
        ask(server.url)


def test_nginx_that_cannot_start_says_why(folder: Path) -> None:
    with (
        pytest.raises(RuntimeError, match='unknown directive "nonsense"'),
        nginx_server(folder, server="nonsense;"),
    ):
        pass


def test_nginx_servers_do_not_disturb_each_other(nginx: Callable[..., Nginx], folder: Path) -> None:
    one, other = nginx(folder), nginx(folder)
    ask(one.url)
    assert (len(list(one.log())), len(list(other.log()))) == (1, 0)


# --------------------------------------------------------------------------------------- real maps


def test_published_is_what_the_list_of_versions_says(shared_maps: Path, tmp_path: Path) -> None:
    versions = json.loads((shared_maps / "antworld" / "versions.json").read_text())["versions"]
    for number in (1, 3, 2):
        published(shared_maps, "antworld", number, tmp_path)
        there = {
            path.relative_to(tmp_path).as_posix(): int(path.stat().st_mtime)
            for path in tmp_path.rglob("*")
            if path.is_file()
        }
        assert there == {name: time for name, (_, time) in versions[number - 1]["files"].items()}


def test_deployed_files_are_all_new(shared_maps: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.touch()
    folder = published(shared_maps, "alexjj", 1, tmp_path / "site", deploy=True)
    times = {path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert min(times) >= before.stat().st_mtime_ns


def test_truth_has_a_step_for_each_later_version(shared_maps: Path) -> None:
    steps = truth(shared_maps, "antworld")
    assert [step.day.isoformat() for step in steps] == ["2021-02-16", "2021-04-12", "2021-05-12"]
    # The versions have 299, 318, 394 and 411 tiles.
    assert [len(step.added) - len(step.removed) for step in steps] == [19, 76, 17]


# ------------------------------------------------------------------------ misbehaving, but behaving


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"If_None_Match": '"5f5e1000-400"'},
        {"If_None_Match": 'W/"5f5e1000-400"'},
        {"If_None_Match": '"0-0", "5f5e1000-400"'},
        {"If_None_Match": '"0-0"'},
        {"If_None_Match": "*"},
        {"If_Modified_Since": "Sun, 13 Sep 2020 12:26:40 GMT"},
        {"If_Modified_Since": "Sun, 13 Sep 2026 12:26:40 GMT"},
        {"If_Modified_Since": "Sun, 13 Sep 2020 12:26:40 GMT", "If_None_Match": '"0-0"'},
    ],
)
def test_without_rules_it_answers_as_nginx(
    nginx: Callable[..., Nginx], site: Misbehaving, folder: Path, method: str, conditions: dict[str, str]
) -> None:
    proper, ours = (
        ask(url, "/a.png", method, timeout=240, **conditions) for url in (nginx(folder).url, site.url)
    )
    assert (ours.status, ours.body) == (proper.status, proper.body)
    names = ("ETag", "Last-Modified", *(("Content-Length", "Content-Type") if proper.status == 200 else ()))
    assert [ours.headers[name] for name in names] == [proper.headers[name] for name in names]


@pytest.mark.parametrize("path", ["/b.png", "/", "/../conftest.py"])
def test_what_is_no_file_of_the_folder_is_404(site: Misbehaving, path: str) -> None:
    assert ask(site.url, path).status == 404


def test_requests_are_recorded(site: Misbehaving) -> None:
    ask(site.url, "/a.png?c=1", User_Agent="someone")
    ask(site.url, "/b.png", method="HEAD")
    first, second = site.received
    assert (first.method, first.path, first.query) == ("GET", "/a.png", "c=1")
    assert first.headers["user-agent"] == "someone"
    assert (second.method, second.path) == ("HEAD", "/b.png")
    assert first.time <= second.time


# ------------------------------------------------------------------------------------- misbehaving


def test_rules_are_by_path(site: Misbehaving) -> None:
    site.rules["/b.png"] = rules.status(410)
    assert [ask(site.url, path).status for path in ("/a.png", "/b.png")] == [200, 410]


def test_a_rule_for_all_yields_to_those_by_path(site: Misbehaving) -> None:
    site.rule_for_all = rules.status(404)
    site.rules["/a.png"] = rules.status(500)
    assert [ask(site.url, path).status for path in ("/a.png", "/b.png")] == [500, 404]


def test_first_requests_fail_then_all_is_well(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.first(2, rules.status(500))
    assert [ask(site.url).status for _ in range(4)] == [500, 500, 200, 200]


@pytest.mark.parametrize("code", [405, 501])
def test_head_is_refused_and_get_is_not(site: Misbehaving, code: int) -> None:
    site.rules["/a.png"] = rules.head_refused(code)
    assert [ask(site.url, method=method).status for method in ("HEAD", "GET")] == [code, 200]


@pytest.mark.parametrize("retry_after", ["7", "Fri, 20 Nov 2026 12:00:00 GMT"])
def test_too_many_says_when_to_come_again(site: Misbehaving, retry_after: str) -> None:
    site.rules["/a.png"] = rules.too_many(retry_after)
    reply = ask(site.url)
    assert (reply.status, reply.headers["Retry-After"]) == (429, retry_after)


@pytest.mark.parametrize("code", [301, 302])
def test_redirect_names_another_place(site: Misbehaving, code: int) -> None:
    site.rules["/a.png"] = rules.redirect(code, "/elsewhere.png")
    reply = ask(site.url)
    assert (reply.status, reply.headers["Location"]) == (code, "/elsewhere.png")


@pytest.mark.parametrize("content", [rules.LFS_POINTER, rules.ERROR_PAGE, b""])
def test_another_body_comes_with_200_and_an_etag_of_its_own(site: Misbehaving, content: bytes) -> None:
    etag = ask(site.url).headers["ETag"]
    site.rules["/a.png"] = rules.body(content)
    reply = ask(site.url, If_None_Match=etag)
    assert (reply.status, reply.body) == (200, content)
    assert reply.headers["Content-Length"] == str(len(content))
    assert reply.headers["ETag"] not in ("", etag)


def test_head_announces_the_body_of_a_get(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.error_page()
    head, get = (ask(site.url, method=method) for method in ("HEAD", "GET"))
    assert (head.body, get.body) == (b"", rules.ERROR_PAGE)
    for name in ("Content-Type", "Content-Length", "ETag"):
        assert head.headers[name] == get.headers[name]


def test_cut_off_body_claims_to_be_whole(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.cut_off(100)
    reply = ask(site.url)
    assert (reply.body, reply.headers["Content-Length"]) == (IMAGE[:100], "100")


def test_broken_off_body_is_shorter_than_promised(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.broken_off(100)
    with pytest.raises(http.client.IncompleteRead) as failure:
        ask(site.url)
    assert (failure.value.partial, failure.value.expected) == (IMAGE[:100], len(IMAGE) - 100)


def test_etag_can_be_left_out(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.without_etag()
    headers = ask(site.url).headers
    assert ("ETag" in headers, "Last-Modified" in headers) == (False, True)


def test_all_validators_can_be_left_out(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.without_validators()
    assert not {"ETag", "Last-Modified"} & set(ask(site.url).headers)


def test_etag_can_be_weak(site: Misbehaving) -> None:
    etag = ask(site.url).headers["ETag"]
    site.rules["/a.png"] = rules.weak_etag()
    assert ask(site.url).headers["ETag"] == f"W/{etag}"


def test_head_can_have_another_etag_than_get(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.head_with_another_etag()
    assert ask(site.url, method="HEAD").headers["ETag"] != ask(site.url).headers["ETag"]


def test_connection_can_be_reset(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.reset()
    with pytest.raises(ConnectionResetError):
        ask(site.url)


def test_server_can_hang_and_still_be_stopped(site: Misbehaving) -> None:
    site.rules["/a.png"] = rules.hang()
    with pytest.raises(TimeoutError):
        ask(site.url, timeout=1)
    assert [request.path for request in site.received] == ["/a.png"]


# -------------------------------------------------------------------------------------- PostgreSQL


def test_postgresql_gives_each_test_a_database_of_its_own(postgresql: PostgresqlServer) -> None:
    with postgresql.database() as one, postgresql.database() as other:
        postgresql.ask("CREATE TABLE songs (title text)", one)
        tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'songs'"
        assert [postgresql.ask(tables, name) for name in (one, other)] == [[(1,)], [(0,)]]
    there = {name for (name,) in postgresql.ask("SELECT datname FROM pg_database")}
    assert not {one, other} & there


def test_postgresql_asks_for_a_password_on_its_port(postgresql: PostgresqlServer) -> None:
    address = postgresql.tcp_url("postgres").replace("+psycopg", "")
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (USER,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgresql.tcp_url("postgres", password="wrong").replace("+psycopg", ""))


def test_postgresql_ends_with_the_process_that_has_started_it() -> None:
    program = (
        "import os, signal; from tests.servers.postgresql import postgresql_server\n"
        "with postgresql_server() as server:\n"
        "    print(server.port, server.folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    port, folder = done.stdout.split()
    end = time.monotonic() + 240
    while is_open(int(port)):
        assert time.monotonic() < end
        time.sleep(0.01)
    # The killed process could not remove its folder.
    shutil.rmtree(folder)


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
