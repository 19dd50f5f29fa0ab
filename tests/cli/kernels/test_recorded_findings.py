"""Findings of results that `hud run` recorded on GPUs."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.analysis.findings.documents import run_findings
from compile_hud.runner.cli.main import main

ROOT = Path(__file__).parents[3]
H200 = ROOT / "tests" / "fixtures" / "h200.json.gz"
H100 = ROOT / "benchmarks" / "gpu" / "ledger" / "20261127-081642-9ca36d.json.gz"
# BERT on an H100 with a mask, and without one: then compiled code takes attention apart.
WITH_AND_WITHOUT_MASK = H100.with_name("20261127-075322-c79730.json.gz")
EXPECTED = ["slower-than-eager", "attention-decomposed", "fp32-on-plain-cores"]
FIELDS = ("code", "text", "cost_s", "where", "remedy", "evidence")
COMPILED = "bert/inference/full/bf16/default/cuda"


def findings_in(path: Path) -> dict[str, dict[str, Finding]]:
    """Return the findings of a document by case and code."""
    document = RunDocument.from_json(json.loads(gzip.decompress(path.read_bytes())))
    rows = run_findings(document)
    return {
        result.case.key: {finding.code: finding for finding in rows[result.id]}
        for result in document.results
    }


@pytest.fixture(scope="module")
def h200() -> dict[str, dict[str, Finding]]:
    return findings_in(H200)


def test_bert_on_an_h200_loses_its_time_to_attention_in_parts(
    h200: dict[str, dict[str, Finding]],
) -> None:
    findings = h200[COMPILED]
    assert list(findings) == EXPECTED
    attention = findings["attention-decomposed"]
    assert attention.cost_s == pytest.approx(6.2e-3, abs=0.4e-3)
    assert attention.where.module.endswith("attention.self")
    assert attention.where.line.startswith("sdpa_attention.py:")
    assert findings["slower-than-eager"].cost_s == pytest.approx(3.70e-3, abs=0.05e-3)
    products = findings["fp32-on-plain-cores"]
    shared = [item.value for item in products.evidence if item.name == "attention-decomposed"]
    assert shared == [pytest.approx(4.54e-3, abs=0.05e-3)]


def test_eager_and_the_reference_cases_of_that_run_have_no_finding(
    h200: dict[str, dict[str, Finding]],
) -> None:
    assert {key for key, findings in h200.items() if findings} == {COMPILED}


def test_an_h100_run_without_eager_results_has_only_findings_that_need_none() -> None:
    codes = {key: list(findings) for key, findings in findings_in(H100).items() if findings}
    assert codes == {
        "electra/inference/full/bf16/default/cuda": ["host-bound"],
        "vit/inference/full/bf16/default/cuda": ["slower-than-eager", "fp32-on-plain-cores"],
        "vit/inference/full/bf16/reduce-overhead/cuda": ["fp32-on-plain-cores"],
    }


def test_show_prints_findings_and_json_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    # The clock of the machine that runs the tests is not what is tested.
    monkeypatch.setattr("compile_hud.runner.files.json_files.MAX_AHEAD", timedelta(days=36_500))
    store = ("--store", f"duckdb:///{tmp_path / 'hud.duckdb'}")
    runner = CliRunner(env={"HUD_STATE_DIR": str(tmp_path)})
    assert runner.invoke(main, ["ingest", *store, str(H200)]).exit_code == 0
    show = ["show", "latest", "bert*default*", *store]
    shown = runner.invoke(main, show).stdout.partition("\nfindings\n")[2]
    assert shown.partition("\n\n")[0] == words
    (result,) = json.loads(runner.invoke(main, [*show, "--json"]).stdout)["results"]
    assert [item["code"] for item in result["findings"]] == EXPECTED
    whole = json.loads(runner.invoke(main, ["show", "latest", "--json", *store]).stdout)
    findings = {item["case"]["variant"]: item["findings"] for item in whole["results"]}
    assert findings["default"] == result["findings"]
    assert set(findings["default"][1]) == set(FIELDS)


def test_passing_a_mask_saved_what_decomposed_attention_costs() -> None:
    content = json.loads(gzip.decompress(WITH_AND_WITHOUT_MASK.read_bytes()))
    latencies_s = {
        (item["case"]["shape"], item["case"]["variant"]): metric["median"]
        for item in content["results"]
        for metric in item["measurements"]
        if item["case"]["model"] == "bert" and metric["metric"] == "latency_s"
    }
    findings = findings_in(WITH_AND_WITHOUT_MASK)
    for mode in ("default", "reduce-overhead"):
        saved_s = latencies_s["full_unmasked", mode] - latencies_s["full_padded", mode]
        slow = findings[f"bert/inference/full_unmasked/bf16/{mode}/cuda"]
        assert slow["attention-decomposed"].cost_s == pytest.approx(saved_s, rel=0.2)
        masked = findings[f"bert/inference/full_padded/bf16/{mode}/cuda"]
        assert not {"attention-decomposed", "fp32-on-plain-cores"} & masked.keys()
