"""Evidence for the cause of an alert, from its bounds and its re-measurement."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.runner.analysis.judging.attribution_evidence import (
    SINCE_LAST_GOOD,
    with_evidence,
)
from tests.support.builders import make_alert, make_case


def explained(
    *,
    difference: Mapping[str, Any] | None = None,
    confirmation: Mapping[str, Any] | None = None,
    **values: Any,
) -> Alert:
    alert = dataclasses.replace(
        make_alert(**values), environment_diff=difference, confirmation=confirmation
    )
    return with_evidence(alert)


BAD_ALONE = [None, "what it says"]


@pytest.mark.parametrize(
    ("before", "difference", "after"),
    [
        ("unknown", {"warnings.throttled": BAD_ALONE}, "machine"),
        ("eager_or_machine", {"warnings.clock-change": BAD_ALONE}, "machine"),
        ("unknown", {"driver": ["550", "560"]}, "machine"),
        ("unknown", {"driver": ["550", "560"], "os": ["6.1", "6.2"]}, "machine"),
        # What changed in the same night may as well have done it.
        ("unknown", {"os": ["6.1", "6.2"], "torch": ["2.13", "2.14"]}, "unknown"),
        ("eager_or_machine", {"driver": ["5", "6"], "revision": ["a", "b"]}, "eager_or_machine"),
        ("eager_or_machine", {"os": ["1", "2"], "models.bert": ["a", "b"]}, "eager_or_machine"),
        ("unknown", {"torch": ["1", "2"], "warnings.shared-gpu": BAD_ALONE}, "machine"),
        ("unknown", {"driver": ["5", "6"], "warnings.bimodal": BAD_ALONE}, "machine"),
        ("unknown", {"warnings.bimodal": BAD_ALONE}, "measurement"),
        ("eager_or_machine", {"warnings.noisy-neighbour": BAD_ALONE}, "measurement"),
        ("eager_or_machine", {"models.bert": ["a", "b"]}, "eager"),
        ("eager_or_machine", {"models.other": ["a", "b"]}, "eager_or_machine"),
        # What a paired witness has told is not overruled.
        ("compiler", {"warnings.throttled": BAD_ALONE}, "compiler"),
        ("eager", {"warnings.bimodal": BAD_ALONE}, "eager"),
        # On the good side alone it explains nothing.
        ("unknown", {"warnings.bimodal": ["what it says", None]}, "unknown"),
        ("unknown", {"packages.numpy": ["1", "2"]}, "unknown"),
        ("unknown", None, "unknown"),
    ],
)
def test_what_only_the_bad_side_has_settles_an_open_cause(
    before: str, difference: Mapping[str, Any] | None, after: str
) -> None:
    assert explained(difference=difference, cause_kind=before).cause_kind == after


def test_sizes_and_reference_cases_do_not_care_for_warnings() -> None:
    difference = {"warnings.throttled": BAD_ALONE}
    of_size = explained(difference=difference, metric="peak_bytes")
    assert (of_size.cause_kind, of_size.cause_text) == ("unknown", "")
    reference = make_case("ref_gemm", family="reference", mode="eager")
    assert explained(difference=difference, case=reference).cause_kind == "unknown"


def test_the_text_has_the_warnings_and_what_changed_since(words: SnapshotAssertion) -> None:
    difference = {
        "torch": ["2.13.0", "2.14.0"],
        "models.bert": ["a", "b"],
        "warnings.bimodal": BAD_ALONE,
    }
    alert = dataclasses.replace(make_alert(), cause_text="eager moved", environment_diff=difference)
    assert with_evidence(alert).cause_text == (words)


def test_no_single_night_is_the_cause_of_a_drift(words: SnapshotAssertion) -> None:
    difference = {"driver": ["550", "560"], "warnings.throttled": BAD_ALONE}
    alert = explained(difference=difference, kind="drift")
    assert alert.cause_kind == "unknown"
    assert alert.cause_text == words


@pytest.mark.parametrize("kind", ["vanished", "variance"])
def test_no_cause_is_settled_where_no_level_moved(kind: str, words: SnapshotAssertion) -> None:
    difference = {"driver": ["550", "560"]}
    alert = explained(difference=difference, kind=kind, metric="speedup")
    assert alert.cause_kind == "unknown"
    assert alert.cause_text == words


def test_a_confirmation_overrides_the_detector(words: SnapshotAssertion) -> None:
    alert = explained(
        difference={"torch": ["2.13.0", "2.14.0"]},
        confirmation={"cause": {"kind": "compiler", "text": "in turn: compiler side"}},
        cause_kind="eager_or_machine",
    )
    assert alert.cause_kind == "compiler"
    assert alert.cause_text == (words)


@pytest.mark.parametrize("confirmation", [None, {}, {"cause": None}, {"verdict": "confirmed"}])
def test_without_a_measured_cause_that_of_the_witnesses_stays(
    confirmation: Mapping[str, Any] | None,
) -> None:
    assert explained(confirmation=confirmation, cause_kind="compiler").cause_kind == "compiler"


CODE = {"models.bert": ["a", "a+dirty(5f3a)"], "driver": ["550", "560"]}
CODE_TEXT = f"{code_change_text('a', 'a+dirty(5f3a)')}; {SINCE_LAST_GOOD}driver 550 -> 560"


@pytest.mark.parametrize("values", [{}, {"metric": "peak_bytes"}, {"kind": "outcome"}])
def test_other_code_of_the_model_is_the_first_cause_of_every_step(values: dict[str, Any]) -> None:
    assert explained(difference=CODE, **values).cause_text == CODE_TEXT


def test_other_code_is_no_cause_of_a_drift_or_of_another_model() -> None:
    drift = explained(difference=CODE, kind="drift").cause_text
    other = explained(difference=CODE, case=make_case("vit")).cause_text
    code = code_change_text(*CODE["models.bert"])
    assert code not in drift + other
    assert "models.bert a -> a+dirty(5f3a)" in drift
