"""The page that Prometheus reads. docs/watching.md lists its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.monitoring.overview import Overview
    from tileharvest.queue.port import Counts

_Metric = TypeVar("_Metric", Gauge, Counter)

# Counters are made anew for each page. Otherwise prometheus_client adds to each the time at which it was
# made.
disable_created_metrics()  # type: ignore[no-untyped-call]


class MetricsPage:
    """One page, with a registry of its own, so that a worker that has gone leaves nothing behind.

    Every metric has the label `map`.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics: dict[str, Any] = {}
        self._map = ""

    def tell(self, map_name: str, overview: Overview | None, harvest: Harvest | None) -> None:
        """Adds the metrics of a map. Without an overview the page only says that the queue cannot be asked.
        Without a harvest there are no metrics of this process."""
        self._map = map_name
        self._tell("queue_up", "1 where the queue could be asked, 0 where not", overview is not None)
        if overview is not None:
            self._tell_queue(overview)
            if overview.workers is not None:
                self._tell_fleet(overview.counts, overview.workers)
        if harvest is not None:
            self._tell_process(harvest)

    def _tell_queue(self, overview: Overview) -> None:
        counts = overview.counts
        pending = self._gauge("pending", "Requests that wait and are due", "lane")
        for lane, count in sorted(counts.pending.items()):
            pending.labels(self._map, lane.name.lower()).set(count)
        self._tell("delayed", "Requests that wait until they are due", counts.delayed)
        self._tell("leased", "Requests handed to workers and not yet finished", counts.leased)
        self._tell("failures", "Requests in the failure list", counts.failed)
        self._tell("done", "Requests finished in the newest segment", counts.done)
        self._tell("seen", "Different requests accepted in the newest segment", counts.seen)

    def _tell_fleet(self, counts: Counts, workers: Sequence[Mapping[str, Any]]) -> None:
        oldest = counts.oldest_lease or 0.0
        self._tell("oldest_lease_seconds", "Age of the oldest lease, 0 without any", oldest)
        self._tell("dead_letters", "Entries that are no requests", counts.dead)
        self._tell("workers", "Workers heard of lately", len(workers))
        # A container that was killed and started again is listed twice for a while, with the same host and
        # pid. The one that was heard of last counts.
        by_age = sorted(workers, key=lambda one: -one["heartbeat_age_seconds"])
        latest = {(one["host"], one["pid"]): one for one in by_age}
        for name, what in (
            ("rate", "Requests per second that the worker finished lately"),
            ("leased", "Requests that the worker holds"),
            ("share", "Requests that the worker may have on the way at the same time"),
            ("heartbeat_age_seconds", "Seconds since the worker was last heard of"),
        ):
            gauge = self._gauge(f"worker_{name}", what, "host", "pid")
            for labels, worker in latest.items():
                if worker[name] is not None:
                    gauge.labels(self._map, *labels).set(worker[name])

    def _tell_process(self, harvest: Harvest) -> None:
        tiles = self._counter("tiles", "Tiles with a result, of this process", "outcome")
        for outcome in Outcome:
            tiles.labels(self._map, outcome).inc(harvest.tally[outcome])
        traffic = harvest.traffic
        for name, what, count in (
            ("requests", "Requests made by this process, repeats and redirects included", traffic.requests),
            ("received_bytes", "Bytes of answers to this process", traffic.received_bytes),
            ("stored_bytes", "Bytes of images that were new to the store", traffic.stored_bytes),
        ):
            self._counter(name, what).labels(self._map).inc(count)

    def _tell(self, name: str, what: str, value: float) -> None:
        self._gauge(name, what).labels(self._map).set(value)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return self._metric(Gauge, name, what, labels)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return self._metric(Counter, name, what, labels)

    def _metric(self, kind: type[_Metric], name: str, what: str, labels: tuple[str, ...]) -> _Metric:
        """Returns the metric of that name, which all maps of the page share."""
        if name not in self._metrics:
            metric = kind(f"tileharvest_{name}", what, ("map", *labels), registry=self.registry)
            self._metrics[name] = metric
        found: _Metric = self._metrics[name]
        return found

    def answer(self, accepted: str) -> tuple[bytes, str]:
        """Returns the page and its type, in a form that the header `Accept` allows."""
        encode, kind = choose_encoder(accepted)
        return encode(self.registry), kind
