"""Findings and warnings on pages: names between backticks are code, as the terminal has them."""

from __future__ import annotations

from compile_hud.app.views.runs.findings import findings_table
from compile_hud.app.views.runs.tables import warning_table
from compile_hud.app.views.series.tables import finding_links
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.run_warning import RunWarning
from tests.support.builders import make_case
from tests.support.records.page_results import result_summary

TEXT = "24 calls spill registers (`triton_poi_<fused>`)"
CODE = "<code>triton_poi_&lt;fused&gt;</code>"
FINDINGS = [Finding(code="register-spills", text=TEXT, remedy="set `max_autotune`", cost_s=0.001)]


def test_history_and_the_tab_of_findings_show_names_as_code() -> None:
    key = make_case().key
    for content in (
        finding_links(FINDINGS, run_id="run-1", case_key=key),
        findings_table(FINDINGS, run_id="run-1", case_key=key, latency_s=None),
    ):
        assert CODE in content
        assert "`" not in content


def test_a_remedy_shows_names_as_code() -> None:
    content = findings_table(FINDINGS, run_id="run-1", case_key="case", latency_s=None)
    assert "set <code>max_autotune</code>" in content


def test_warnings_show_names_as_code() -> None:
    warning = RunWarning(code="guards", text=TEXT, hint="see `nvidia-smi`")
    content = warning_table(result_summary(warnings=[warning]))
    assert CODE in content
    assert "see <code>nvidia-smi</code>" in content
    assert "`" not in content
