"""The scheduler in real crawls by stub spiders: seen by nginx's log and by what the queue keeps."""

import json
import signal
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.end_to_end.project import answered, await_condition, stop
from tests.scheduler.crawling import Crawls, order, run
from tileharvest.scheduler.scheduler import Scheduler


@pytest.fixture
def page(crawls: Crawls) -> str:
    """The address of a page without links."""
    return crawls.write_page("page")


# --- What fails ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("callback", "reason"),
    [("raise_error", "this page is no good"), ("yield_bad_item", "this item is no good")],
)
def test_a_request_whose_callback_or_item_raises_goes_to_the_failure_list(
    crawls: Crawls, page: str, callback: str, reason: str
) -> None:
    (crawled,) = crawls.crawl(run({"url": page, "callback": callback}))
    assert crawled.said("INFO")[-1] == "Spider closed (finished)"
    (failure,) = crawls.failures()
    assert reason in failure.reason
    assert (crawled.counted("failed"), crawled.counted("left"), crawled.counted("done")) == (1, 0, 0)


def test_a_request_that_cannot_be_downloaded_and_has_no_errback_goes_to_the_failure_list(
    crawls: Crawls,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    (crawled,) = crawls.crawl(run(closed))
    (failure,) = crawls.failures()
    assert "Connection was refused" in failure.reason
    assert crawled.counted("left") == 0


def test_what_failed_is_offered_first_in_the_next_segment_only(crawls: Crawls, page: str) -> None:
    bad, other = crawls.write_page("bad"), {"url": page, "callback": "note"}
    first = run({"url": bad, "callback": "raise_error"}, segment="day")
    again = run(other, segment="day", CONCURRENT_REQUESTS=1)
    later = run(other, segment="week", CONCURRENT_REQUESTS=1)
    crawls.crawl(first, again, later)
    assert crawls.asked() == ["/bad", "/page", "/bad", "/page"]


@pytest.mark.parametrize("ends", ["", "1"], ids=["", "in a crawl that ends"])
def test_a_queue_that_has_failed_is_told_nothing_more(crawls: Crawls, ends: str) -> None:
    """The links of the first page were to be pushed when it failed, so the page must not be finished."""
    for name in "abc":
        crawls.write_page(name)
    root = crawls.write_page("root", "/a", "/b", "/c")
    failed, _ = crawls.crawl(run(root, spider="FailingQueueSpider", ends=ends), run(root))
    assert ("the disk is full" in failed.said("ERROR")) == (not ends)
    assert {"/a", "/b", "/c"} <= set(crawls.asked())
    assert crawls.counts().left == 0


def test_the_spider_stays_while_the_queue_takes_its_requests(crawls: Crawls, page: str) -> None:
    roots = [crawls.write_page(name, "/page") for name in "ab"]
    (crawled,) = crawls.crawl(run(*roots, spider="WatchingSpider"))
    assert sorted(crawls.asked()) == ["/a", "/b", "/page"]
    assert crawled.counted("overlooked") == 0


# --- Once per segment ------------------------------------------------------------------------------


def test_dont_filter_is_never_filtered_nor_counted_as_seen(crawls: Crawls, page: str) -> None:
    unfiltered: dict[str, Any] = {"url": page, "dont_filter": True}
    posted = {**unfiltered, "method": "POST", "body": "a", "callback": "note"}
    (crawled,) = crawls.crawl(run(unfiltered, unfiltered, posted, posted, page))
    assert crawls.asked() == ["/page"] * 5
    assert (crawled.counted("dropped/seen"), crawled.counted("seen")) == (0, 1)


def test_a_post_is_made_once_in_each_run_and_not_counted_as_seen(crawls: Crawls, page: str) -> None:
    one, other = ({"url": page, "method": "POST", "body": body, "callback": "note"} for body in "ab")
    crawled, again = crawls.crawl(run(one, one, other, page), run(one, page))
    assert crawls.asked() == ["/page"] * 4
    assert (crawled.counted("dropped/seen"), crawled.counted("seen")) == (1, 1)
    assert (again.counted("dropped/seen"), again.counted("seen")) == (1, 1)


def test_a_second_run_of_a_segment_makes_nothing_and_the_next_segment_or_a_fresh_run_everything(
    crawls: Crawls, page: str
) -> None:
    root = crawls.write_page("root", "/page")
    crawls.crawl(*[run(root, segment=name) for name in ("day", "day", "week")], run(root, fresh="1"))
    assert crawls.asked() == ["/root", "/page"] * 3


# --- In which order --------------------------------------------------------------------------------


def test_what_json_cannot_hold_waits_in_memory_and_the_log_says_so_once(crawls: Crawls) -> None:
    root = crawls.write_page("root", "/1", "/2", "/3", "/2")
    for n in (1, 2, 3):
        crawls.write_page(str(n))
    (crawled,) = crawls.crawl(run(root, spider="NamelessSpider"))
    assert sorted(crawls.asked()) == ["/1", "/2", "/3", "/root"]
    assert (crawled.counted("in_memory"), crawled.counted("dropped/seen")) == (3, 1)
    assert (crawled.counted("done"), crawled.counted("left")) == (1, 0)
    (line,) = [line for line in crawled.said("WARNING") if "waits in memory" in line]
    assert "because JSON cannot hold it: its callback functools.partial(" in line


def test_what_waits_in_memory_is_delayed_and_is_lost_with_the_process(crawls: Crawls, page: str) -> None:
    later = json.dumps({"url": "/later", "meta": {"not_before": time.time() + 3600}})
    root = crawls.write_page("root", later, json.dumps({"url": "/page", "meta": {"not_before": 1}}))
    with crawls.running(run(root, spider="NamelessSpider")) as process:
        assert await_condition(lambda: answered(crawls.server) == 2, process)
        stdout, _ = stop(process, signal.SIGTERM)
    assert crawls.asked() == ["/root", "/page"]
    assert "what waited in memory was not made, and is not kept: 1 request" in stdout


def test_what_no_queue_can_keep_is_dropped_and_the_crawl_goes_on(crawls: Crawls, page: str) -> None:
    root = crawls.write_page("root", json.dumps({"url": "/bad", "meta": {"not_before": "soon"}}), "/page")
    (crawled,) = crawls.crawl(run(root))
    assert crawls.asked() == ["/root", "/page"]
    assert crawled.counted("dropped/mistaken") == 1
    assert (crawled.counted("left"), crawled.counted("failed")) == (0, 0)


def test_a_queued_address_that_scrapy_refuses_goes_to_the_failure_list(crawls: Crawls, page: str) -> None:
    crawls.push(order("no address"), order(page))
    (crawled,) = crawls.crawl(run())
    assert crawls.asked() == ["/page"]
    assert [failure.body[8:34] for failure in crawls.failures()] == [b'{"v":4,"url":"no address",']
    assert crawled.counted("left") == 0


# --- Later -----------------------------------------------------------------------------------------


def test_a_spider_with_nothing_but_requests_for_later_closes_and_says_when_to_run_it_again(
    crawls: Crawls, page: str
) -> None:
    due = time.time() + 3600
    (crawled,) = crawls.crawl(run({"url": page, "meta": {"not_before": due}}, CLOSE_WHEN_WAITING=0))
    assert crawls.asked() == []
    said = time.strftime("requests wait until %Y-%m-%d %H:%M:%S UTC; run it again then", time.gmtime(due))
    assert crawled.said("INFO").count(said) == 1
    assert crawled.counted("delayed") == 1


def test_a_spider_that_is_to_wait_makes_the_request_when_it_is_due(crawls: Crawls, page: str) -> None:
    due = time.time() + 1.5
    crawls.crawl(run({"url": page, "meta": {"not_before": due}}))
    (line,) = crawls.server.log()
    assert due - 0.001 <= line.time


# --- With others -----------------------------------------------------------------------------------


def test_a_second_crawl_of_a_spider_says_so_and_makes_nothing(crawls: Crawls, page: str) -> None:
    with crawls.running(run(page, stay="1")) as process:
        assert await_condition(lambda: answered(crawls.server) == 1, process)
        (second,) = crawls.crawl(run(crawls.write_page("other")))
        assert process.poll() is None
    assert crawls.asked() == ["/page"]
    (line,) = second.said("ERROR")
    assert line.startswith("spider 'stub' runs in another process already; nothing was changed; let that end")
    assert "Traceback" not in str(second.log)
    assert second.failed


def test_what_was_leased_ahead_waits_again_when_the_crawl_ends(crawls: Crawls) -> None:
    pages = [crawls.write_page(f"{number}") for number in range(12)]
    crawls.crawl(run(*pages, CONCURRENT_REQUESTS=4, CLOSESPIDER_PAGECOUNT=1))
    counts = crawls.counts()
    assert counts.leased == 0 < counts.normal


def test_a_crawl_that_is_held_is_busy_with_what_the_engine_has_and_not_with_what_is_leased_ahead() -> None:
    for handed in ({}, {(1, 1): None}):
        middleware = SimpleNamespace(handed=handed)
        held: Any = SimpleNamespace(middleware=middleware, _ready=[None], _is_throttled=True)
        assert vars(Scheduler)["is_busy"].fget(held) is bool(handed)
