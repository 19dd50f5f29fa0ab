"""The exception of a failed case, as its alert shows it."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.alerts.failure import failure_html
from compile_hud.db.records.results import Outcome
from tests.support.pages.page_elements import visible_text
from tests.support.records.page_results import result_summary


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("torch.OutOfMemoryError: 3 GiB", "failed"),
        ("no answer within 600 s", "timeout"),
        ("", "failed"),
        ("E: <b>x</b>: y", "failed"),
    ],
    ids=["exception", "sentence", "none", "markup"],
)
def test_the_exception_comes_first(reason: str, outcome: str, words: SnapshotAssertion) -> None:
    content = failure_html(result_summary(outcome=Outcome(outcome), reason=reason))
    assert "<b>" not in content
    assert visible_text(content) == words
