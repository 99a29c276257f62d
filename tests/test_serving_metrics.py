"""Metrics: what Prometheus gets is what was counted, under names that it likes, and never too many of them."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import simile
from conftest import demos_of
from simile.serving.counts import HELP, Counts, Latencies
from simile.serving.messages import Frame
from simile.serving.metrics import build_registry, write_metrics
from simile.serving.monitoring import KINDS, Monitor
from simile.serving.service import Service

RATE = 30.0
SECONDS = Latencies().edges


@pytest.fixture(scope="module")
def policy():
    """A policy of two contexts and one action."""
    demos = demos_of(200, 200, rate=RATE)
    return simile.clone(demos, model=simile.SmoothForest(n_trees=2), horizon=simile.Horizon(2, 0)).policy


def service_of(policy, **options) -> Service:
    return Service(policy, max_streams=64, monitor=Monitor(policy, RATE, 64), **options)


def play(service: Service, names: list[str], frames: int, x: list[float] | None = None) -> None:
    """Send frames of some streams."""
    streams = [service.streams.get(name) or service.open(name) for name in names]
    for t in range(frames):
        for stream in streams:
            service.put(stream, Frame(x=[0.01 * t, 0.0] if x is None else x), lambda *_: None)
        service.run()


def scraped(service: Service) -> dict[str, object]:
    """Return what Prometheus reads, by the name of the family."""
    text = write_metrics(build_registry(service)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value_of(service: Service, name: str, **labels: str) -> float | None:
    """Return one sample; None where there is none."""
    return build_registry(service).get_sample_value(name, labels)


def test_every_count_is_a_counter_with_its_value(policy):
    service = service_of(policy)
    for i, one in enumerate(fields(Counts)):
        setattr(service.counts, one.name, 100 + i)
    families = scraped(service)
    for i, one in enumerate(fields(Counts)):
        assert families[f"simile_{one.name}"].type == "counter"
        assert value_of(service, f"simile_{one.name}_total") == 100 + i


def test_every_count_is_explained():
    assert set(HELP) == {one.name for one in fields(Counts)}


def test_names_are_as_prometheus_wants_them(policy):
    service = service_of(policy)
    play(service, ["a"], 3)
    own = {name: family for name, family in scraped(service).items() if not name.startswith("process_")}
    assert len(own) > 20
    for name, family in own.items():
        assert re.fullmatch(r"simile_[a-z]+(_[a-z]+)*", name)
        assert not name.endswith(("_ms", "_milliseconds", "_percent"))
        assert family.documentation.endswith(".")
        if family.type == "counter":
            assert {sample.name for sample in family.samples} == {f"{name}_total"}
        else:
            assert family.type in ("gauge", "histogram")


def test_the_process_tells_its_memory(policy):
    assert value_of(service_of(policy), "process_resident_memory_bytes") > 2**20


def test_streams_are_counted_and_never_named(policy):
    service = service_of(policy)
    play(service, ["a"], 5)
    few = write_metrics(build_registry(service)).decode()
    play(service, [f"camera-{i}" for i in range(50)], 5)
    many = write_metrics(build_registry(service)).decode()
    assert value_of(service, "simile_streams") == 51
    assert value_of(service, "simile_streams_limit") == 64
    assert "camera-" not in many
    assert len(many.splitlines()) == len(few.splitlines())


def test_latencies_are_a_histogram_in_seconds(policy):
    service = service_of(policy)
    service.latencies.add(np.array([0.00005, 0.0001, 0.0003, 0.0042, 7.0]))
    family = scraped(service)["simile_answer_seconds"]
    assert family.type == "histogram"
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert [float(edge) for edge in buckets] == [*SECONDS, np.inf]
    assert list(buckets.values()) == sorted(buckets.values())
    assert (buckets["0.0001"], buckets["0.0005"], buckets["0.005"], buckets["+Inf"]) == (2, 3, 4, 5)
    assert value_of(service, "simile_answer_seconds_count") == 5
    assert value_of(service, "simile_answer_seconds_sum") == pytest.approx(7.00465)


def test_answers_are_in_the_histogram(policy):
    service = service_of(policy)
    play(service, ["a", "b"], 10)
    assert value_of(service, "simile_answer_seconds_count") == value_of(service, "simile_answers_total") == 20


def test_troubles_are_counted_by_kind_and_drift_by_feature(policy):
    service = service_of(policy)
    play(service, ["a"], 300, x=[1e6, 0.0])
    play(service, ["b"], 300)
    service.monitor.events()
    for kind in KINDS:
        expected = float(kind in ("drift", "stuck"))
        assert value_of(service, "simile_streams_in_trouble", kind=kind) == expected
        assert value_of(service, "simile_troubles_total", kind=kind) == expected
    assert value_of(service, "simile_drift_known") == 1.0
    assert 0.3 < value_of(service, "simile_drift_ratio", feature="x0") < 0.5  # of one stream out of two
    assert value_of(service, "simile_drift_ratio", feature="x1") == 0.0


def test_a_stream_that_was_closed_is_in_trouble_no_more(policy):
    service = service_of(policy)
    play(service, ["a"], 300, x=[1e6, 0.0])
    service.monitor.events()
    service.close(service.streams["a"])
    assert value_of(service, "simile_streams_in_trouble", kind="drift") == 0.0
    assert value_of(service, "simile_drift_ratio", feature="x0") is None
    assert value_of(service, "simile_troubles_total", kind="drift") == 1.0


def test_unknown_ranges_are_told_and_no_drift_is_made_up(policy):
    service = service_of(replace(policy, card=replace(policy.card, training={})))
    play(service, ["a"], 10)
    assert value_of(service, "simile_drift_known") == 0.0
    assert scraped(service)["simile_drift_ratio"].samples == []


def test_a_service_that_is_not_watched_has_metrics_too(policy):
    families = scraped(Service(policy, max_streams=2))
    assert "simile_frames" in families
    assert "simile_drift_ratio" not in families


def test_any_name_of_a_feature_can_be_a_label(policy):
    names = ('a "quoted"\nname\\', "ünï {code}")
    service = service_of(replace(policy, card=replace(policy.card, context_names=names)))
    play(service, ["a"], 3)
    found = scraped(service)["simile_drift_ratio"]
    assert {sample.labels["feature"] for sample in found.samples} == set(names)


def test_the_docs_tell_of_every_metric_and_of_no_other(policy, tmp_path):
    with simile.Recorder(tmp_path) as recorder:
        service = service_of(policy, recorder=recorder, shadows={"new": policy})
        play(service, ["a"], 3)
    text = (Path(__file__).parents[1] / "docs" / "serving.md").read_text("utf-8")
    tables = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    own = {
        f"{name}_total" if family.type == "counter" else name
        for name, family in scraped(service).items()
        if name.startswith("simile_")
    }
    assert set(re.findall(r"simile_[a-z_]+", tables)) == own
