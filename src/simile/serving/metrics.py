"""Metrics for Prometheus, read off what the service counts anyway: a frame costs nothing here, a scrape a millisecond.

Names begin with `simile_`, counters end in `_total`, units are seconds and shares from 0 to 1. Features and kinds of
trouble are labels; streams are not, for anybody could name a million of them. `GET /streams` tells of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simile._common.typing import IntArray
from simile.serving.counts import HELP, Latencies
from simile.serving.monitoring import Monitor

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from simile.online.recording import Recorder
    from simile.serving.service import Service
    from simile.serving.shadows import MeanSquare, Shadow, Shadows


class ServiceCollector:
    """Tells Prometheus about a service; it is read when Prometheus asks.

    Parameters
    ----------
    service : Service
        Whose numbers.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        service = self.service
        for name, meaning in HELP.items():
            yield Counter(f"simile_{name}", meaning, value=getattr(service.counts, name))
        yield Gauge("simile_streams", "Streams that are open.", value=len(service.streams))
        yield Gauge("simile_streams_limit", "Streams that there can be.", value=service.max_streams)
        yield _describe_latencies(service.latencies)
        if service.recorder is not None:
            yield from _describe_recording(service.recorder)
        if service.shadows is not None:
            yield from _describe_shadows(service.shadows, service.policy.card.action_names)
        if service.monitor is not None:
            live = np.array([stream.slot for stream in service.streams.values()], np.intp)
            yield from _describe_troubles(service.monitor, live)


def build_registry(service: Service) -> CollectorRegistry:
    """Return a registry with the service's metrics and those of its process: memory, CPU time, open files."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    registry.register(ServiceCollector(service))
    ProcessCollector(registry=registry)
    return registry


def write_metrics(registry: CollectorRegistry) -> bytes:
    """Write all metrics as Prometheus reads them, `text/plain; version=0.0.4`."""
    from prometheus_client import generate_latest

    return generate_latest(registry)


def _describe_latencies(latencies: Latencies) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    below = np.cumsum(latencies.counts).tolist()
    edges = [*map(str, latencies.edges), "+Inf"]
    return HistogramMetricFamily(
        "simile_answer_seconds",
        "Time from the arrival of a frame to its answer.",
        buckets=list(zip(edges, below, strict=True)),
        sum_value=latencies.total,
    )


def _describe_recording(recorder: Recorder) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily as Counter

    for name, meaning, value in (
        ("recorded", "Frames that are on the disk.", recorder.rows),
        ("record_lost", "Frames that could not be recorded.", recorder.lost),
        ("record_failures", "Times that the recording could not be written.", recorder.failures),
        ("record_removed", "Files of the recording that had to go, to keep to --record-limit.", recorder.removed),
    ):
        yield Counter(f"simile_{name}", meaning, value=value)


def _describe_shadows(shadows: Shadows, actions: Sequence[str]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily as Counter

    def count(name: str, meaning: str, value: Callable[[Shadow], float]) -> Metric:
        family = Counter(f"simile_shadow_{name}", meaning, labels=["shadow", "digest"])
        for shadow in shadows.all:
            family.add_metric([shadow.name, shadow.digest or ""], value(shadow))
        return family

    def add_up(name: str, meaning: str, score: Callable[[Shadow], MeanSquare]) -> Metric:
        family = Counter(f"simile_shadow_{name}", meaning, labels=["shadow", "digest", "action"])
        for shadow in shadows.all:
            sums = score(shadow).squares.tolist()
            for i, value in enumerate(sums):
                action = actions[i] if len(actions) == len(sums) else f"a{i}"
                family.add_metric([shadow.name, shadow.digest or "", action], value)
        return family

    yield count("frames", "Frames that a shadow acted in.", lambda s: s.frames)
    yield count("skipped", "Frames that a shadow left out, under load or after it had.", lambda s: s.skipped)
    yield count("failed", "Frames that a shadow could not act on.", lambda s: s.failed)
    yield count("seconds", "CPU time that a shadow took.", lambda s: s.seconds)
    yield count("operator_frames", "Frames of operators that a shadow is compared with.", lambda s: s.operator.frames)
    yield add_up("operator_squared_error", "Squared errors to operators, summed.", lambda s: s.operator)
    yield count("policy_frames", "Frames of the policy that a shadow is compared with.", lambda s: s.policy.frames)
    yield add_up("policy_squared_difference", "Squared differences to the policy, summed.", lambda s: s.policy)


def _describe_troubles(monitor: Monitor, live: IntArray) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    now = GaugeMetricFamily("simile_streams_in_trouble", "Streams in trouble now.", labels=["kind"])
    for kind, streams in monitor.troubles(live).items():
        now.add_metric([kind], streams)
    yield now
    ever = CounterMetricFamily("simile_troubles", "Troubles that began.", labels=["kind"])
    for kind, times in monitor.begun.items():
        ever.add_metric([kind], times)
    yield ever
    known = float(monitor.baseline.drift_known)
    yield GaugeMetricFamily(
        "simile_drift_known", "1 where the policy tells the range of its training's contexts, else 0.", value=known
    )
    drift = GaugeMetricFamily(
        "simile_drift_ratio", "Recent contexts outside the training's range, as a share of all.", labels=["feature"]
    )
    for feature, share in monitor.drift(live).items():
        drift.add_metric([feature], share)
    yield drift
