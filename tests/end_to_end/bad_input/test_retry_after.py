"""Servers that send Retry-After (RFC 9110, section 10.2.3): no request comes before that time."""

from tests.end_to_end.bad_input.small_site import FIRST_DAY, Stage, address, methods, visit
from tests.servers import rules
from tests.servers.misbehaving import Received

ONE_BY_ONE = ("-s", "CONCURRENT_REQUESTS=1")
"""One request at a time: no other one is on the way when the answer comes."""


def test_the_whole_host_is_left_alone_for_that_many_seconds(stage: Stage) -> None:
    stage.site.rules[address("0")] = rules.first(1, rules.status(429, {"Retry-After": "1"}))
    done = visit(stage.project, FIRST_DAY, *ONE_BY_ONE)
    assert (done.status, done.counts) == (0, {"add": 20})
    assert methods(stage.site, "0") == ["GET", "GET"]
    refused = next(request for request in stage.site.received if request.path == address("0"))
    assert between(stage, refused.time, refused.time + 1) == []


def test_the_configuration_too_is_asked_for_again_no_earlier(stage: Stage) -> None:
    stage.site.rules["/overviewerConfig.js"] = rules.first(1, rules.status(503, {"Retry-After": "1"}))
    done = visit(stage.project, FIRST_DAY)
    assert (done.status, done.counts) == (0, {"add": 20})
    robots, first, second = stage.site.received[:3]
    assert robots.path == "/robots.txt"
    assert first.path == second.path == "/overviewerConfig.js"
    assert second.time - first.time >= 1


def between(stage: Stage, start: float, end: float) -> list[Received]:
    """Returns the requests that came after `start` and before `end`."""
    return [request for request in stage.site.received if start < request.time < end]
