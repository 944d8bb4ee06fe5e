"""A crawl that Prometheus watches: seen as Prometheus sees it, at its port."""

import signal
import socket
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, staged
from tests.end_to_end.project import await_condition, stop

ALL_OF_IT = 2 + len(PATHS)
"""Requests of a first harvest: robots.txt, the configuration, then a GET for each tile."""
BLOCKS = 8
"""Their blocks: each tile of the first level is one, and so are the four tiles below it."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def numbers(port: int) -> dict[str, float]:
    """The values of all maps and lanes together, by name; of the tiles by outcome."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=240) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["map"] == "small"
            name = sample.labels.get("outcome", sample.name.removeprefix("tileharvest_"))
            found[name] = found.get(name, 0) + sample.value
    return found


def test_a_crawl_is_watched_and_another_one_at_the_same_port_goes_on_without(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.project.add_map("other", f"{stage.site.url}/")
        # What a site without one answers is the server's own affair.
        (stage.files.folder / "robots.txt").touch()
        port = free_port()
        watched = ("-a", f"day={FIRST_DAY}", "-s", f"PROMETHEUS_PORT={port}")
        with stage.project.running(
            "crawl", "overviewer", "-a", "map=small", "-a", "stay=1", *watched
        ) as process:
            assert await_condition(lambda: len(stage.site.received) >= ALL_OF_IT, process)
            log = stage.project.scrapy("crawl", "overviewer", "-a", "map=other", *watched).stderr
            assert f"port {port} of 127.0.0.1 is not served to Prometheus: it is in use" in log
            assert "Spider closed (finished)" in log
            assert await_condition(lambda: numbers(port)["done"] == BLOCKS, process)
            found = numbers(port)
            _, log = stop(process, signal.SIGTERM)
        assert f"http://127.0.0.1:{port}/metrics" in log
        assert "Traceback" not in log
        images = sum(stage.files.file(path).stat().st_size for path in PATHS)
        expected = {
            "queue_up": 1,
            "requests_total": ALL_OF_IT,
            "add": len(PATHS),
            "fail": 0,
            "stored_bytes_total": images,
            "received_bytes_total": images + (stage.files.folder / "overviewerConfig.js").stat().st_size,
            **dict.fromkeys(("pending", "delayed", "leased", "failures"), 0),
            **dict.fromkeys(("seen", "done"), BLOCKS),
        }
        assert {name: found[name] for name in expected} == expected
