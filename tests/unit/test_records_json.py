"""Every record comes back from its JSON form as it went in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from db.records import Case, CaseResult, Measurement, Run, RunDocument, RunWarning
from db.sighting import Sighting
from db.triage import AlertChange, SeriesSettings
from tests.strategies import (
    CASES,
    CHANGES,
    DOCUMENTS,
    SETTINGS,
    SIGHTINGS,
    WARNINGS,
    measurements,
    results,
    runs,
)

FEW = settings(max_examples=25, deadline=None)


def _through_text(document: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


@FEW
@given(item=st.one_of(CASES, WARNINGS, SIGHTINGS, CHANGES, SETTINGS))
def test_small_records(
    item: Case | RunWarning | Sighting | AlertChange | SeriesSettings,
) -> None:
    assert type(item).from_json(_through_text(item.to_json())) == item


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
