"""When a request is through: in a real Scrapy engine, seen beside the pipelines and the scheduler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.scheduler.crawling import Crawls, run
from tileharvest.scheduler.completion import EngineHook

if TYPE_CHECKING:
    from pathlib import Path


WATCHED = {
    "SCHEDULER": "tests.scheduler.stub_spiders.WatchedScheduler",
    "ITEM_PIPELINES": {"tests.scheduler.stub_spiders.SlowPipeline": 1},
}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What happened to which path in a crawl of a page, its links, and an address that does not answer."""
    from tests.servers.nginx import nginx  # noqa: PLC0415  # the fixture of that name is per test

    folder: Path = tmp_path_factory.mktemp("completion")
    (folder / "site").mkdir()
    with nginx(folder / "site", location="rewrite ^/old$ /b redirect;") as server:
        crawls = Crawls(folder, server)
        root = crawls.write_page("root", "/a", "/b", "/old")
        crawls.write_page("a")
        crawls.write_page("b")
        (crawled,) = crawls.crawl(
            run(root, {"url": "http://127.0.0.1:1/refused", "errback": "failed"}, **WATCHED)
        )
    happened = [line.split()[1:] for line in crawled.said("INFO") if line.startswith("event ")]
    return [(what, path) for what, path in happened]


def test_each_request_is_through_exactly_once(events: list[tuple[str, str]]) -> None:
    through = sorted(path for what, path in events if what == "through")
    # The redirect leads to /b, which the page has named before.
    assert through == ["/a", "/b", "/old", "/refused", "/root"]


@pytest.mark.parametrize("path", ["/root", "/a", "/b"])
def test_a_request_is_through_after_its_items_have_passed_the_pipelines(
    events: list[tuple[str, str]], path: str
) -> None:
    assert events.index(("through", path)) > events.index(("item", path))


def test_a_request_is_through_after_its_children_are_enqueued(events: list[tuple[str, str]]) -> None:
    through = events.index(("through", "/root"))
    assert {("enqueued", path) for path in ("/a", "/b", "/old")} <= set(events[:through])


def test_a_redirected_request_is_through_after_the_new_one_is_enqueued(events: list[tuple[str, str]]) -> None:
    through = events.index(("through", "/old"))
    assert events[:through].count(("enqueued", "/b")) == events.count(("enqueued", "/b"))


class NextCall:
    def __init__(self) -> None:
        self.scheduled = 0

    def schedule(self) -> None:
        self.scheduled += 1


def engine(**slot: Any) -> Any:
    return SimpleNamespace(_slot=SimpleNamespace(**slot), downloader=SimpleNamespace(active=set()))


@pytest.mark.parametrize(
    "unknown",
    [
        SimpleNamespace(),
        SimpleNamespace(_slot=None),
        engine(nextcall=NextCall()),
        engine(nextcall=NextCall(), inprogress=[]),
        engine(inprogress=set()),
        SimpleNamespace(_slot=engine(nextcall=NextCall(), inprogress=set())._slot),
    ],
    ids=["no slot", "slot of None", "no inprogress", "inprogress is a list", "no nextcall", "no downloader"],
)
def test_another_engine_is_refused_with_what_to_do(unknown: Any) -> None:
    with pytest.raises(
        RuntimeError, match=r"engine\.downloader\.active: install the version that requirements"
    ):
        EngineHook(print).attach(unknown)


@pytest.mark.parametrize(("closing", "scheduled"), [(None, 1), ("a Deferred", 0)])
def test_an_engine_is_woken_unless_it_closes(closing: Any, scheduled: int) -> None:
    nextcall = NextCall()
    hook = EngineHook(print)
    hook.attach(engine(nextcall=nextcall, inprogress=set(), closing=closing))
    hook.wake()
    assert nextcall.scheduled == scheduled


def test_requests_that_are_under_way_already_are_told_of_too() -> None:
    told: list[str] = []
    known = engine(nextcall=NextCall(), inprogress={"before"}, closing=None)
    EngineHook(told.append).attach(known)
    known._slot.inprogress.add("after")
    for request in ("before", "after"):
        known._slot.inprogress.remove(request)
    assert told == ["before", "after"]
    assert not known._slot.inprogress


def test_requests_on_the_way_are_those_of_the_downloader() -> None:
    known = engine(nextcall=NextCall(), inprogress=set(), closing=None)
    hook = EngineHook(print)
    hook.attach(known)
    assert hook.in_flight == 0
    known.downloader.active.update({"one", "another"})
    assert hook.in_flight == 2


def test_before_there_is_an_engine_nothing_is_on_the_way_and_nobody_is_woken() -> None:
    hook = EngineHook(print)
    hook.wake()
    assert hook.in_flight == 0
