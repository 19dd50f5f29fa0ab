"""Every record comes back from its JSON form as it went in."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Kernel, KernelSource, Profile
from compile_hud.db.records.results import Case, CaseResult, Measurement, Run, RunDocument
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.triage import AlertChange
from tests.support.examples import examples
from tests.support.strategies import (
    CASES,
    CHANGES,
    DOCUMENTS,
    KERNELS,
    PROFILES,
    SOURCES,
    WARNINGS,
    measurements,
    results,
    runs,
)

FEW = settings(max_examples=examples(25))


def _through_text(document: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


@FEW
@given(item=st.one_of(CASES, WARNINGS, CHANGES))
def test_small_records(item: Case | RunWarning | AlertChange) -> None:
    assert type(item).from_json(_through_text(item.to_json())) == item


@FEW
@given(item=st.one_of(KERNELS, SOURCES, PROFILES))
def test_records_of_kernels(item: Kernel | KernelSource | Profile) -> None:
    assert type(item).from_json(_through_text(item.to_json())) == item


@FEW
@given(item=results(), kernel=KERNELS, source=SOURCES)
def test_result_with_kernels(item: CaseResult, kernel: Kernel, source: KernelSource) -> None:
    item = dataclasses.replace(item, kernels=(kernel,), sources=(source,))
    assert CaseResult.from_json(_through_text(item.to_json())) == item


def test_a_kernel_takes_no_number_that_is_none() -> None:
    document = {
        **dict.fromkeys(("name", "label", "kind", "library", "device"), "k"),
        **dict.fromkeys(("count", "total_s", "mean_s", "min_s", "share"), 1.0),
    }
    kernel = Kernel.from_json({**document, "num_bytes": 6.0, "mean_s": 2.0})
    assert (kernel.bytes_per_s, kernel.flops_per_s) == (3.0, None)
    with pytest.raises(RecordError) as caught:
        Kernel.from_json({**document, "total_s": -1.0})
    assert caught.value.parameters == {"kernel": "k", "problem": "number"}


def test_the_remainder_is_what_the_parts_leave_of_the_latency() -> None:
    profile = Profile(
        num_iterations=3, iteration_s=5.0, latency_s=4.5, components={"gemm": 4.0, "python": 1.0}
    )
    assert profile.remainder_s == -0.5


@FEW
@given(item=measurements())
def test_measurement(item: Measurement) -> None:
    assert Measurement.from_json(_through_text(item.to_json())) == item


@FEW
@given(item=results())
def test_result(item: CaseResult) -> None:
    assert CaseResult.from_json(_through_text(item.to_json())) == item


@FEW
@given(item=runs())
def test_run(item: Run) -> None:
    assert Run.from_json(_through_text(item.to_json())) == item


@FEW
@given(item=DOCUMENTS)
def test_document(item: RunDocument) -> None:
    assert RunDocument.from_json(_through_text(item.to_json())) == item
