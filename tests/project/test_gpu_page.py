"""docs/explanation/gpu.md has the figures of the ledger and no others."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from benchmarks.gpu.claims import CLAIMS, ClaimVerdict, judge_claims
from benchmarks.gpu.ledger import FOLDER, newest, read_ledger
from benchmarks.gpu.page import PAGE, page_text
from compile_hud.db.records.results import Outcome, RunDocument


@functools.cache
def ledger() -> Sequence[RunDocument]:
    """Return the documents of the ledger, which take seconds to read."""
    return read_ledger(FOLDER)


def test_the_page_is_drawn_from_the_ledger() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(ledger()), (
        "run `python -m benchmarks.gpu.merge`"
    )


def test_every_run_of_the_ledger_has_its_provenance() -> None:
    for document in ledger():
        facts = document.run.environment
        for name in ("device_name", "driver_version", "torch_version", "cuda_version"):
            assert facts[name], (document.run.id, name)
        assert document.run.started_at.tzinfo is not None
        assert not document.run.is_synthetic


def test_every_published_figure_has_a_verdict_or_a_reason() -> None:
    documents = ledger()
    devices = {device for device, _ in newest(documents)}
    assert devices
    for device in devices:
        judged = judge_claims(documents, device=device)
        assert [item.claim for item in judged] == list(CLAIMS)
        for item in judged:
            has_figure = item.verdict in (ClaimVerdict.REPRODUCED, ClaimVerdict.REFUTED)
            assert item.cell is not None if has_figure else item.reason


def test_what_did_not_end_well_has_no_number() -> None:
    for document in ledger():
        for result in document.results:
            assert result.outcome is Outcome.OK or not result.measurements
