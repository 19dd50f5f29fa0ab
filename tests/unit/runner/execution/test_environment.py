"""Revision and comparability."""

from __future__ import annotations

from compile_hud.runner.execution.environment import (
    COMPARABILITY_KEYS,
    compares,
    differing_keys,
    fingerprint,
    revision,
)
from tests.support.builders import make_run

FACTS = {key: f"some {key}" for key in COMPARABILITY_KEYS} | {
    "torch_version": "2.13.0",
    "torch_git": "0123456789abcdef",
    "hostname": "one",
}


def test_a_revision_is_version_and_commit() -> None:
    assert revision(FACTS) == "2.13.0@0123456789"
    assert revision({"torch_version": "2.13.0"}) == "2.13.0"


def test_another_torch_or_host_compares() -> None:
    other = FACTS | {"torch_version": "2.14.0", "hostname": "two"}
    assert fingerprint(other) == fingerprint(FACTS)
    assert differing_keys(FACTS, candidate=other) == ()


def test_each_comparability_key_changes_the_fingerprint_and_is_named() -> None:
    for key in COMPARABILITY_KEYS:
        other = FACTS | {key: "another"}
        assert fingerprint(other) != fingerprint(FACTS)
        assert differing_keys(FACTS, candidate=other) == (key,)


def test_on_a_cpu_the_build_for_gpus_does_not_count() -> None:
    facts = FACTS | {"device_kind": "cpu"}
    other = facts | {"cuda_version": "13.0", "driver_version": "580"}
    assert fingerprint(other) == fingerprint(facts)
    assert differing_keys(facts, candidate=other) == ()
    assert differing_keys(facts, candidate=other | {"num_threads": 2}) == ("num_threads",)


def test_on_a_gpu_it_counts() -> None:
    facts = FACTS | {"device_kind": "cuda"}
    other = facts | {"cuda_version": "13.0"}
    assert fingerprint(other) != fingerprint(facts)
    assert differing_keys(facts, candidate=other) == ("cuda_version",)


def test_runs_that_compile_ahead_compare_among_themselves() -> None:
    ahead = FACTS | {"compile_ahead": {"processes": 4, "cores_each": 4}}
    fewer = FACTS | {"compile_ahead": {"processes": 2, "cores_each": 8}}
    assert len({fingerprint(FACTS), fingerprint(ahead), fingerprint(fewer)}) == 3
    assert differing_keys(FACTS, candidate=ahead) == ("compile_ahead",)
    assert differing_keys(ahead, candidate=fewer) == ("compile_ahead",)


def test_launches_that_compile_alone_compare_with_a_run_that_compiled_ahead() -> None:
    ahead = FACTS | {"compile_ahead": {"processes": 4, "cores_each": 4}}
    run = make_run(environment=ahead, fingerprint=fingerprint(ahead))
    assert compares(FACTS, run)
    assert not compares(FACTS | {"num_threads": 9}, run)
    alone = make_run(environment=FACTS, fingerprint=fingerprint(FACTS))
    assert compares(FACTS, alone)
