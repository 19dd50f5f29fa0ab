"""Differences between the last good and the first bad run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Run
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.comparison.environment_diff import (
    config_diff,
    environment_diff,
    environment_text,
    warnings_diff,
)
from compile_hud.runner.analysis.comparison.runs import check_comparable
from compile_hud.runner.analysis.errors import NotComparableError
from tests.support.builders import make_run

FACTS = {
    "torch_version": "2.13.0",
    "torch_git": "0123",
    "triton_version": "3.4.0",
    "numpy_version": "2.1.0",
    "driver_version": "550",
    "hostname": "a1b2c3",
    "peaks": {"copy": 1.0},
    "packages": {"torch": "2.13.0", "triton": "3.4.0", "numpy": "2.1.0", "idna": "3.1", "pip": "1"},
    "model_commits": {"models_zoo": "aaaa", "net": "bbbb"},
}


def run_with(revision: str = "2.13.0@0123", **facts: Any) -> Run:
    return make_run(revision=revision, environment={**FACTS, **facts})


def diff_with(revision: str = "2.13.0@0123", **facts: Any) -> Mapping[str, Any]:
    return environment_diff(run_with(), after=run_with(revision, **facts))


def test_equal_environments_have_no_difference() -> None:
    assert diff_with(hostname="d4e5f6", peaks={"copy": 2.0}) == {}
    assert diff_with(imported={"format": "v3", "workflow": "14"}) == {}
    assert environment_text({}) == ""


def test_what_changed_is_named_once_the_most_telling_first() -> None:
    differences = diff_with(
        "2.14.0@4567",
        torch_version="2.14.0",
        torch_git="4567",
        triton_version="3.5.0",
        numpy_version="2.2.0",
        driver_version="560",
        packages={"torch": "2.14.0", "triton": "3.5.0", "numpy": "2.2.0", "idna": "3.1"},
        model_commits={"models_zoo": "aaaa", "net": "cccc"},
        num_cpus=4,
    )
    assert list(differences.items()) == [
        ("torch", ["2.13.0@0123", "2.14.0@4567"]),
        ("triton", ["3.4.0", "3.5.0"]),
        ("driver", ["550", "560"]),
        ("models.net", ["bbbb", "cccc"]),
        ("num_cpus", [None, 4]),
        ("packages.numpy", ["2.1.0", "2.2.0"]),
        ("packages.pip", ["1", None]),
    ]


def test_the_text_names_the_first_few_and_counts_the_rest(words: SnapshotAssertion) -> None:
    packages = dict.fromkeys(("a", "b", "c", "d", "e", "f"), "2")
    before = run_with(packages={**packages, "a": "1", "b": None})
    assert environment_text(environment_diff(before, after=run_with(packages=packages))) == (
        "a 1 -> 2, b none -> 2"
    )
    many = environment_diff(run_with(packages={}), after=run_with(packages=packages))
    assert environment_text(many) == (words)


def test_a_run_that_knew_no_packages_differs_in_none() -> None:
    before = make_run(environment={"driver_version": "550"})
    after = make_run(environment={"driver_version": "550", "packages": {"numpy": "2.2.0"}})
    assert environment_diff(before, after=after) == {}


def test_a_revision_of_others_is_called_so() -> None:
    runs = [make_run(revision=name, environment={}) for name in ("abc", "def")]
    assert environment_diff(runs[0], after=runs[1]) == {"revision": ["abc", "def"]}


def test_warnings_of_one_side_alone_differ_and_are_not_of_the_environment() -> None:
    both = RunWarning(code="drift", text="it drifts")
    differences = warnings_diff(
        [both, RunWarning(code="bimodal", text="two modes")],
        after=[both, RunWarning(code="throttled", text="hot")],
    )
    assert differences == {
        "warnings.bimodal": ["two modes", None],
        "warnings.throttled": [None, "hot"],
    }
    assert environment_text(differences) == ""


def test_a_changed_configuration_is_named_with_both_values() -> None:
    before = {"batch": 4, "length": 77, "mask": "none"}
    differences = config_diff(before, after={"batch": 4, "length": 64, "mask": "ones", "window": 8})
    assert differences == {
        "config.length": [77, 64],
        "config.mask": ["none", "ones"],
        "config.window": [None, 8],
    }
    assert environment_text(differences) == (
        "config.length 77 -> 64, config.mask none -> ones, config.window none -> 8"
    )
    assert config_diff(before, after=dict(before)) == {}


def test_packages_forbid_no_comparison_and_fill_no_message() -> None:
    one = make_run("a", fingerprint="a" * 64, environment={**FACTS, "num_cpus": 2})
    other = make_run("b", fingerprint="b" * 64, environment={**FACTS, "packages": {}})
    with pytest.raises(NotComparableError, match=r"differ in num_cpus: 2 -> None\. "):
        check_comparable(one, candidate=other)
