"""`hud import`: metrics whose number a text or a zero replaces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Dtype, Outcome, Phase
from tests.support.records.v3_records import make_record
from tests.support.stores.imports import import_records, only_result, report_of, runs
from tests.support.terminal import Terminal

CODE = "metric-without-number"


def import_metrics(terminal: Terminal, metrics: Mapping[str, Any], *, name: str = "file") -> Any:
    document = {"name": "kernels", "env": {"device": "AMD MI300X"}, "metrics": metrics}
    (terminal.folder / f"{name}.json").write_text(json.dumps(document))
    return report_of(terminal, f"{name}.json", "--format", "torchbench", "--at", "2026-01-04")


def test_a_text_takes_the_number_of_its_metric_alone(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    metrics = {"alpha_score": 91.5, "beta_ms": 3.25, "gamma_ms": "Timeout after 60 s", "delta": 7}
    import_metrics(terminal, metrics)
    result = only_result(terminal)
    assert result.outcome is Outcome.OK
    assert {item.metric: item.median for item in result.measurements} == {
        "alpha_score": 91.5,
        "beta_ms": 3.25,
        "delta": 7.0,
    }
    (warning,) = result.warnings
    assert (warning.code, warning.text) == (CODE, words)
    assert warning.text in terminal.hud("show", "latest", "kernels").stdout


def test_a_case_without_any_number_has_the_outcome_of_its_texts(terminal: Terminal) -> None:
    import_metrics(terminal, {"alpha_score": "RuntimeError: no kernel", "beta": "CUDA OOM"})
    result = only_result(terminal)
    assert (result.outcome, result.reason) == (Outcome.OUT_OF_MEMORY, "beta: CUDA OOM")
    assert (result.measurements, result.warnings) == ((), ())


@pytest.mark.parametrize("text", ["b1oomberg-7b", "sha256:0f", "boomerang", "1.5 (+-2 %)", "PASS"])
def test_a_text_that_is_no_failure_is_counted(
    terminal: Terminal, text: str, words: SnapshotAssertion
) -> None:
    report = import_metrics(terminal, {"alpha_score": 91.5, "kernel": text})
    assert report["skipped_first"] == words
    assert only_result(terminal).warnings == ()


def test_names_of_operators_carry_input_backend_and_pass(terminal: Terminal) -> None:
    import_metrics(
        terminal,
        {
            "tritonbench_bf16_layer_norm_fwd[x_(64, 512)-liger]_latency": 0.25,
            "tritonbench_bf16_layer_norm_fwd[x_(64, 512)-liger]_gbps": 900.0,
            "tritonbench_bf16_layer_norm_fwd[x_(64, 512)-torch_ln]_latency": "CUDA OOM",
            "tritonbench_bf16_layer_norm_fwd[x_(-1, 2)-torch_ln]_latency": 0.5,
            "tritonbench_fp8_attention_fwd_bwd[flex]-speedup": 1.75,
            "tritonbench_rope_fwd_no_grad[x_128-liger]_latency": 0.125,
            "tritonbench_rope_bwd-pass": 1,
        },
    )
    (document,) = runs(terminal)
    assert document.run.machine == "AMD MI300X"
    results = {result.case.key: result for result in document.results}
    assert {key: item.outcome for key, item in results.items()} == {
        "layer_norm/inference/(64, 512)/bf16/liger/unknown": Outcome.OK,
        "layer_norm/inference/(64, 512)/bf16/torch_ln/unknown": Outcome.OUT_OF_MEMORY,
        "layer_norm/inference/(-1, 2)/bf16/torch_ln/unknown": Outcome.OK,
        "fp8_attention/training/default/other/flex/unknown": Outcome.OK,
        "rope/other/fwd_no_grad-128/other/liger/unknown": Outcome.OK,
        "rope/other/bwd/other/unknown/unknown": Outcome.OK,
    }
    liger = results["layer_norm/inference/(64, 512)/bf16/liger/unknown"]
    assert (liger.case.phase, liger.case.dtype) == (Phase.INFERENCE, Dtype.BF16)
    measured = {item.metric: item.median for item in liger.measurements}
    assert measured == pytest.approx({"latency_s": 0.00025, "gbps": 900.0})


def test_a_record_with_a_word_for_its_number_fails_only_without_other_numbers(
    terminal: Terminal,
) -> None:
    alone = make_record("abs_latency", "OOM", model="alone")
    with_numbers = make_record("abs_latency", "OOM", model="with numbers")
    named = make_record("gpu", "RTX 6000 Blooms", model="named")
    import_records(
        terminal,
        alone,
        with_numbers,
        named,
        make_record("mfu", 0.25, model="with numbers"),
        make_record("mfu", 0.5, model="named"),
    )
    (document,) = runs(terminal)
    results = {item.case.model: item for item in document.results}
    assert results["alone"].outcome is Outcome.OUT_OF_MEMORY
    assert results["with numbers"].outcome is Outcome.OK
    assert [item.metric for item in results["with numbers"].measurements] == ["mfu"]
    assert [item.code for item in results["with numbers"].warnings] == [CODE]
    assert results["named"].warnings == ()


def test_files_with_and_without_a_number_add_up_in_any_order(terminal: Terminal) -> None:
    parts = {
        "first": {"beta_ms": 3.25},
        "second": {"gamma_ms": "CUDA OOM"},
        "third": {"gamma_ms": 9.0, "delta": 4.0},
    }
    outcomes = set()
    for number, order in enumerate(itertools.permutations(parts)):
        store = ("--store", f"{number}.duckdb")
        for name in order:
            document = {"name": "kernels", "metrics": parts[name]}
            (terminal.folder / f"{name}.json").write_text(json.dumps(document))
            options = ("--format", "torchbench", "--at", "2026-01-04", *store)
            assert terminal.hud("import", f"{name}.json", *options).exit_code == 0
        lines = terminal.hud("export", "all", "--format", "v3", *store).stdout.splitlines()
        metrics = [json.loads(line)["metric"] for line in lines]
        outcomes.add(json.dumps(sorted(str(metric) for metric in metrics)))
    assert len(outcomes) == 1
