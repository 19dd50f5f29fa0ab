"""`hud import` of the files of PyTorch's nightly suite and of TorchBench."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Dtype, Outcome, Phase
from tests.support.records.v3_records import A100, make_record, write_lines
from tests.support.stores.imports import only_result, report_of, runs
from tests.support.terminal import Terminal

DYNAMO_NAME = "inductor_with_cudagraphs_huggingface_amp_training_cuda_performance.csv"
DYNAMO_HEADER = "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio"


def test_a_nightly_csv_is_read_with_the_configuration_of_its_name(terminal: Terminal) -> None:
    (terminal.folder / DYNAMO_NAME).write_text(
        f"{DYNAMO_HEADER}\n\n# a note\ncuda,T5Small,16,1.5,10.0,31.5,0.9\ncuda,XLNet,8,0.0,0,0,0\n"
    )
    report_of(terminal, DYNAMO_NAME, "--at", "2026-01-01", "--revision", "abc")
    (document,) = runs(terminal)
    assert document.run.suite == "huggingface"
    t5, xlnet = document.results
    assert (t5.case.phase, t5.case.dtype, t5.case.device) == (Phase.TRAINING, Dtype.AMP, "cuda")
    assert (t5.case.mode, t5.case.backend) == ("inductor_with_cudagraphs", "inductor")
    assert t5.case.shape == "bs16"
    assert {item.metric: item.median for item in t5.measurements} == pytest.approx(
        {
            "speedup": 1.5,
            "latency_s": 0.010,
            "compile_cold_s": 31.5,
            "compression_ratio": 0.9,
            "eager_latency_s": 0.015,
        }
    )
    assert (xlnet.outcome, xlnet.measurements) == (Outcome.FAILED, ())


def test_performance_and_accuracy_files_of_a_night_are_one_run(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    accuracy = DYNAMO_NAME.replace("performance", "accuracy")
    (terminal.folder / DYNAMO_NAME).write_text(
        f"{DYNAMO_HEADER}\ncuda,T5Small,16,1.5,10.0,31.5,0.9\n"
    )
    (terminal.folder / accuracy).write_text(
        "dev,name,batch_size,accuracy,graph_breaks\ncuda,T5Small,16,fail_accuracy,0\n"
    )
    options = ("--at", "2026-01-01", "--revision", "abc")
    assert terminal.hud("import", DYNAMO_NAME, accuracy, *options).exit_code == 0
    result = only_result(terminal)
    assert (result.outcome, result.measurements) == (Outcome.INACCURATE, ())
    assert result.reason == words


def test_equal_files_of_several_configurations_are_several_cases(terminal: Terminal) -> None:
    content = "dev,name,batch_size,accuracy\nxpu,vit_small,32,pass\nxpu,swin,16,fail_to_run\n"
    modes = ("aot_eager", "inductor_dynamic", "inductor_max_autotune")
    names = [f"{mode}_timm_models_bfloat16_inference_xpu_accuracy.csv" for mode in modes]
    names += ["aot_eager_timm_models_float16_inference_xpu_accuracy.csv", "expected.csv"]
    for name in names:
        (terminal.folder / name).write_text(content)
    options = ("--at", "2026-01-05", "--revision", "cafe", "--machine", "pvc")
    files = terminal.json("import", *names, *options, "--json")["files"]
    assert [item["new"] for item in files] == [2] * len(names)
    cases = [result.case for document in runs(terminal) for result in document.results]
    assert len({case.key for case in cases}) == 2 * len(names)
    # The same facts are the same file: packed, in another folder, and under a name of equal parts.
    folder = terminal.folder / "copies"
    folder.mkdir()
    (folder / names[0]).write_text(content)
    (folder / f"{names[1]}.gz").write_bytes(gzip.compress(content.encode()))
    (folder / names[2].replace("accuracy", "performance")).write_text(content)
    copies = [str(path) for path in sorted(folder.iterdir())]
    again = terminal.json("import", *copies, *options, "--json")["files"]
    assert [item["unchanged"] for item in again] == [True] * 3


@pytest.mark.parametrize(("device", "factor"), [("cpu", 0.01), ("cuda", 1.0), ("xpu", 1.0)])
def test_peak_memory_on_a_cpu_is_a_hundredth_of_the_file(
    terminal: Terminal, device: str, factor: float
) -> None:
    (terminal.folder / f"eager_torchbench_float32_training_{device}_performance.csv").write_text(
        "dev,name,batch_size,compression_ratio,eager_peak_mem,dynamo_peak_mem\n"
        f"{device},unet,6,1.25,50,40\n"
    )
    report_of(terminal, f"eager_torchbench_float32_training_{device}_performance.csv")
    measured = {item.metric: item.median for item in only_result(terminal).measurements}
    assert measured == pytest.approx(
        {
            "compression_ratio": 1.25,
            "eager_peak_bytes": 50e9 * factor,
            "peak_bytes": 40e9 * factor,
        }
    )


@pytest.mark.parametrize(("unit", "peak_bytes"), [("", 0.4e9), ("GB", 40e9)])
def test_a_record_without_a_unit_has_the_same_percentage(
    terminal: Terminal, unit: str, peak_bytes: float
) -> None:
    record = make_record("dynamo_peak_mem", 40.0, runner="xeon")
    record["metric"]["extra_info"] = {"unit": unit}
    record["benchmark"]["extra_info"]["device"] = record["runners"][0]["name"] = "cpu"
    write_lines(terminal.folder / "records.json", [record])
    report_of(terminal, "records.json")
    assert only_result(terminal).measurements[0].median == pytest.approx(peak_bytes)


def test_memory_of_the_host_in_torchbench_is_a_percentage_as_well(terminal: Terminal) -> None:
    names = ("vgg-eval_cpu_peak_mem", "vgg-eval_gpu_peak_mem")
    metrics = {**dict.fromkeys(names, 30.0), "tritonbench_rope_fwd[x_8-liger]_cpu_peak_mem": 150.0}
    (terminal.folder / "file.json").write_text(json.dumps({"name": "suite", "metrics": metrics}))
    report_of(terminal, "file.json")
    (document,) = runs(terminal)
    vgg, rope = ({item.metric: item for item in case.measurements} for case in document.results)
    assert vgg["peak_bytes"].median == 30e9
    assert (vgg["cpu_peak_mem"].median, vgg["cpu_peak_mem"].unit) == (pytest.approx(0.3), "GB")
    assert rope["cpu_peak_mem"].median == pytest.approx(1.5)


def test_hardware_in_a_file_name_is_the_machine_where_none_is_given(terminal: Terminal) -> None:
    names = [
        f"inductor_huggingface_amp_inference_cpu_{hardware}_accuracy.csv"
        for hardware in ("x86_zen", "aarch64")
    ]
    for name in names:
        (terminal.folder / name).write_text("dev,name,accuracy\ncpu,T5,pass\n")
    assert terminal.hud("import", *names, "--at", "2026-01-05").exit_code == 0
    assert {item.run.machine for item in runs(terminal)} == {"cpu_x86_zen", "cpu_aarch64"}


def test_equal_torchbench_files_of_two_nights_are_two_runs(terminal: Terminal) -> None:
    document = {"name": "suite", "metrics": {"vgg-eval_latency": 21.5}}
    for day in (3, 4):
        name = f"metrics-202601{day:02}040500.json"
        (terminal.folder / name).write_text(json.dumps(document))
        assert report_of(terminal, name)["new"] == 1
    assert [item.run.started_at.day for item in runs(terminal)] == [3, 4]


def test_a_known_file_without_a_time_says_how_to_import_another_night(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / DYNAMO_NAME).write_text("dev,name,accuracy\ncuda,T5,pass\n")
    terminal.hud("import", DYNAMO_NAME)
    assert terminal.hud("import", DYNAMO_NAME).stdout == words
    for day in ("2026-01-06", "2026-01-07"):
        assert report_of(terminal, DYNAMO_NAME, "--at", day)["new"] == 1
    assert terminal.hud("import", DYNAMO_NAME, "--at", "2026-01-07").stdout == words


def test_files_of_expected_values_are_read(terminal: Terminal) -> None:
    (terminal.folder / "inductor_huggingface_inference.csv").write_text(
        "name,accuracy,graph_breaks\n\n\n\nmeta-llama/Llama-3.2-1B,pass,0\n\nBlender,pass_due_to_skip,0\n"
    )
    (terminal.folder / "expected_results.csv").write_text(
        "add_loop_eager,compile_time_instruction_count,3066000000,0.015\n\n\n"
    )
    report_of(terminal, "inductor_huggingface_inference.csv", "--at", "2026-01-01")
    report_of(terminal, "expected_results.csv", "--at", "2026-01-02")
    accuracy, counts = runs(terminal)
    llama, blender = accuracy.results
    assert (llama.case.model, llama.outcome) == ("meta-llama/Llama-3.2-1B", Outcome.OK)
    assert blender.outcome is Outcome.SKIPPED
    (count,) = counts.results[0].measurements
    assert (count.metric, count.median) == ("compile_time_instruction_count", 3066000000.0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("dev,name\ncuda,a,1\n", 2),
        ("dev,name,speedup\ncuda,,1\n", 2),
        ("first,second\n", 1),
        ('dev,name\ncuda,"a', 2),
        (f"{DYNAMO_HEADER}\ncuda,a,4,1.234\n", 2),
        (f"{DYNAMO_HEADER}\ncuda,a,4,1.2,0\n", 2),
        ("dev,name,speedup\ncuda,a\n", 2),
        ("name,graph_breaks,graphs\na,0\n", 2),
        ("dev,name,speedup\ncuda,a,1.2", 2),
        ("loop,count,3066000000,0.015\nadd,count,32", 2),
    ],
)
def test_a_broken_csv_is_one_error_with_its_line(
    terminal: Terminal, text: str, line: int, words: SnapshotAssertion
) -> None:
    (terminal.folder / "broken.csv").write_text(text)
    result = terminal.hud("import", "broken.csv")
    assert result.exit_code == 2
    (error,) = result.stderr.splitlines()
    assert error.startswith(f"hud: broken.csv:{line}: ")
    assert error == words


@pytest.mark.nightly
def test_a_csv_that_is_cut_anywhere_is_an_error_or_ends_with_a_whole_row(
    terminal: Terminal,
) -> None:
    text = "dev,name,batch_size,speedup,abs_latency,graphs\n" + "".join(
        f"cuda,{name},4,1.234,20.25,12\n" for name in "ab"
    )
    for end in range(text.index("a,4"), len(text)):
        name = f"cut-{end}.csv"
        (terminal.folder / name).write_text(text[:end])
        outcome = terminal.hud("import", name)
        assert outcome.exit_code == int(text[end - 1] != "\n"), outcome.stdout
    (terminal.folder / "whole.csv").write_text(text)
    report_of(terminal, "whole.csv")
    for document in runs(terminal):
        for result in document.results:
            medians = {item.metric: item.median for item in result.measurements}
            assert (medians["latency_s"], medians["graphs"]) == (0.02025, 12)


def test_a_failed_case_without_the_zeros_behind_its_speedup_is_a_failed_case(
    terminal: Terminal,
) -> None:
    (terminal.folder / DYNAMO_NAME).write_text(
        f"{DYNAMO_HEADER}\ncuda,XLNet,0,0.0000\ncuda,T5,16,1.5,10.0,31.5,0.9\n"
    )
    report_of(terminal, DYNAMO_NAME)
    (document,) = runs(terminal)
    assert [result.outcome for result in document.results] == [Outcome.FAILED, Outcome.OK]


def test_cells_that_are_no_numbers_are_counted(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / DYNAMO_NAME).write_text(
        "dev,name,batch_size,tag,speedup,abs_latency\ncuda,T5,4,night,1.5,\ncuda,BERT,4,,n/a,2\n"
    )
    report = report_of(terminal, DYNAMO_NAME)
    assert list(report["skipped"].values()) == [1]
    assert list(report["skipped"]) == words
    assert report["skipped_first"] == words
    (document,) = runs(terminal)
    assert [result.case.shape for result in document.results] == ["bs4-night", "bs4"]


def test_a_failure_in_a_cell_is_the_outcome_of_a_case_without_numbers(terminal: Terminal) -> None:
    (terminal.folder / DYNAMO_NAME).write_text(
        "dev,name,batch_size,speedup,abs_latency,graphs\n"
        "cuda,T5,4,OOM,OOM,\ncuda,BERT,4,TIMEOUT,2.5,3\ncuda,GPT,4,1.5,bloom,1\n"
    )
    report = report_of(terminal, DYNAMO_NAME)
    assert list(report["skipped"].values()) == [1]
    (document,) = runs(terminal)
    t5, bert, gpt = document.results
    assert [item.outcome for item in (t5, bert, gpt)] == [
        Outcome.OUT_OF_MEMORY,
        Outcome.OK,
        Outcome.OK,
    ]
    assert {item.metric for item in bert.measurements} == {"latency_s", "graphs"}
    assert len(bert.warnings) == 1
    assert gpt.warnings == ()


def test_the_first_of_what_is_skipped_are_reported_by_name(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    nameless = [{"metric": {"benchmark_values": [1.0]}}] * 7
    long = make_record("speedup", [], model="\x1b[31m" + "x" * 200)
    records = [make_record(), {"model": "odd"}, long, *nameless]
    write_lines(terminal.folder / "records.json", records)
    result = terminal.hud("import", "records.json")
    assert [line.strip() for line in result.stdout.splitlines() if "skipped" in line] == words


def test_a_file_of_which_all_is_skipped_names_the_first_too(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_lines(terminal.folder / "records.json", [{"model": "odd"}, {"model": "odder"}])
    result = terminal.hud("import", "records.json")
    assert result.exit_code == 2
    assert result.stderr == words


def test_torchbench_files_carry_case_and_time_in_their_names(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    document = {
        "name": "torch-nightly",
        "environ": {"pytorch_git_version": "0123456789abcdef", "device": A100},
        "metrics": {
            "test_eval[resnet50-cuda-eager]_latency": 12.5,
            "test_eval[resnet50-cuda-eager]_gmem": 1.5,
            "timm_regnet-train_latency": [30.0, None, 31.0],
            "model=alexnet, test=train, device=cpu, bs=8, extra_args=[], metric=latencies": 4.0,
            "model=vgg, test=eval, device=cpu, bs=None, extra_args=[], metric=latencies": "skip",
            "model=yolo, test=eval, device=cpu, bs=None, extra_args=[], metric=latencies": (
                "CUDA out of memory. Tried to allocate 2 GiB"
            ),
            "v3_score": 991.5,
            "nothing": None,
        },
    }
    name = "metrics-20260131023000.json"
    (terminal.folder / name).write_text(json.dumps(document, indent=4))
    report = report_of(terminal, name)
    assert (report["format"], set(report["skipped"].values())) == ("torchbench", {1})
    assert report["skipped_first"] == words
    (run,) = runs(terminal)
    assert run.run.started_at == datetime(2026, 1, 31, 2, 30, tzinfo=timezone.utc)
    assert (run.run.suite, run.run.revision) == ("torch-nightly", "0123456789abcdef")
    results = {result.case.model: result for result in run.results}
    resnet = results["resnet50"]
    assert (resnet.case.phase, resnet.case.device, resnet.case.mode) == (
        Phase.INFERENCE,
        "cuda",
        "eager",
    )
    assert {item.metric: item.median for item in resnet.measurements} == pytest.approx(
        {"latency_s": 0.0125, "peak_bytes": 1.5e9}
    )
    assert results["timm_regnet"].measurements[0].samples == pytest.approx((0.030, 0.031))
    assert results["alexnet"].case.shape == "bs8"
    assert results["vgg"].outcome is Outcome.SKIPPED
    assert results["yolo"].outcome is Outcome.OUT_OF_MEMORY
    assert results["torch-nightly"].measurements[0].metric == "v3_score"


def test_a_file_that_is_missing_is_reported_by_name_and_the_others_are_stored(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_lines(terminal.folder / "records.json", [make_record()])
    (terminal.folder / "folder").mkdir()
    done = terminal.hud("import", "missing.json", "folder", "missing.csv", "records.json")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == words
    assert len(runs(terminal)) == 1


def test_a_file_with_a_run_of_the_future_is_refused(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    ahead = make_record(night=1) | {"timestamp": 4_102_444_800_000}
    write_lines(terminal.folder / "ahead.json", [make_record(), ahead])
    write_lines(terminal.folder / "untimed.json", [make_record() | {"timestamp": None}])
    message = (
        "its newest run starts at {} 00:00 UTC, more than a day after now (2026-03-02 02:30 UTC)"
    )
    done = terminal.hud("import", "ahead.json")
    assert done.exit_code == 2
    assert done.stderr == words
    done = terminal.hud("import", "untimed.json", "--at", "2026-03-04")
    assert (done.exit_code, message.format("2026-03-04") in done.stderr) == (2, True)
    assert runs(terminal) == []
    assert terminal.hud("import", "untimed.json", "--at", "2026-03-03").exit_code == 0
