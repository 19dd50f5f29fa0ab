"""The CSV of NVIDIA's profilers, as its documentation has it: whole, cut off and hostile."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.interop.importers import nsight
from compile_hud.runner.interop.importers.nsight import (
    CounterFile,
    CounterMean,
    match_names,
    read_counters,
)
from tests.support.examples import examples
from tests.support.words import short_id

TRITON = "triton_poi_fused_add_0"
VECTORIZED = "void at::native::vectorized_elementwise_kernel<(int)4, float>(int, float)"
SUMMARY = f"""Generating SQLite file report.sqlite from report.nsys-rep
Processing [report.sqlite] with [/opt/reports/cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000,3,2000.0,2000.0,1900,2100,81.6,{TRITON}
40.0,4000,2,2000.0,2000.0,2000,2000,0.0,"{VECTORIZED}"
"""
NVTX = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
RAW = f'''==PROF== Connected to process 42
"ID","Process ID","Kernel Name","Grid Size","{NVTX}","dram__bytes.sum","sm__throughput.avg.pct",\
"device__attribute_clock_rate","launch__names"
"","","","","","Mbyte","%","hz",""
"0","42","{TRITON}","(8, 1, 1)","42 ""<default domain>:hud/iteration:none""","1,000.50","40","9",""
"1","42","{TRITON}","(8, 1, 1)","42 ""<default domain>:hud/iteration:none""","1,001.50","60","9",""
==PROF== Disconnected from process 42
'''
DETAILS = f'''"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value","Rule"
"0","{TRITON}","Command line profiler metrics","gpu__time_duration.sum","us","2.5",""
"0","{TRITON}","GPU Speed Of Light Throughput","Memory Throughput","%","45.7",""
"0","{TRITON}","Memory Workload Analysis","Memory Throughput","Gbyte/s","1.5",""
"0","{TRITON}","GPU Speed Of Light Throughput","","","","SOLBottleneck"
"1","{TRITON}","Command line profiler metrics","gpu__time_duration.sum","ns","3500",""
'''


def read_file(folder: Path, text: str | bytes) -> CounterFile:
    path = folder / "kernels.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_counters(path)


def read(folder: Path, text: str | bytes) -> Mapping[str, Mapping[str, CounterMean]]:
    return read_file(folder, text).kernels


def test_a_summary_of_nsight_systems_is_read_in_seconds(tmp_path: Path) -> None:
    reports = read(tmp_path, SUMMARY)
    assert set(reports) == {TRITON, VECTORIZED}
    readings = reports[TRITON]
    assert readings["nsys.calls"] == CounterMean(value=3, unit="calls", num_rows=1)
    assert readings["nsys.total_s"].value == pytest.approx(6e-6)
    assert readings["nsys.mean_s"].value == pytest.approx(2e-6)
    assert set(readings) == {
        *("nsys.calls", "nsys.total_s", "nsys.mean_s", "nsys.median_s"),
        *("nsys.min_s", "nsys.max_s", "nsys.stddev_s"),
    }


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Time(%),Total Time,Instances,Average,Minimum,Maximum", "9.5,7500,3,2500.0,2100,2900"),
        (
            "Time(%),Total Time (ns),Instances,Average (ns),Minimum (ns),Maximum (ns),StdDev (ns)",
            "9.5,7500,3,2500.0,2100,2900,330.0",
        ),
        (
            "Time (%),Total Time (usec),Instances,Avg (usec),Median (usec),Min (usec)",
            "9.5,7.5,3,2.5,2.4,2.1",
        ),
        (
            "Time (%),Total Time (ms),Instances,Avg (ms),Med (ms),Max (ms),StdDev (ms)",
            "9.5,0.0075,3,0.0025,0.0024,0.0029,0.00033",
        ),
    ],
)
def test_each_version_and_unit_of_nsight_systems_gives_the_same_counters(
    tmp_path: Path, header: str, row: str
) -> None:
    content = read_file(tmp_path, f"{header},Name\n{row},{TRITON}\n")
    assert content.unread_columns == ()
    values = {name: item.value for name, item in content.kernels[TRITON].items()}
    expected = {
        "nsys.calls": 3,
        "nsys.total_s": 7.5e-6,
        "nsys.mean_s": 2.5e-6,
        "nsys.median_s": 2.4e-6,
        "nsys.min_s": 2.1e-6,
        "nsys.max_s": 2.9e-6,
        "nsys.stddev_s": 3.3e-7,
    }
    assert values == pytest.approx({name: expected[name] for name in values})
    assert len(values) == header.count(",")


def test_a_column_that_is_not_read_is_named(tmp_path: Path) -> None:
    lines = SUMMARY.splitlines()
    wider = [
        f"{line},{extra}" for line, extra in zip(lines[3:], ["GridXYZ", "8", "9"], strict=True)
    ]
    content = read_file(tmp_path, "\n".join(wider).replace("StdDev", "Skewness") + "\n")
    assert content.unread_columns == ("Skewness (ns)", "GridXYZ")
    assert "nsys.stddev_s" not in content.kernels[TRITON]


def test_raw_counters_are_means_over_calls_in_plain_units(tmp_path: Path) -> None:
    readings = read(tmp_path, RAW)
    assert readings == {
        TRITON: {
            "dram__bytes.sum": CounterMean(value=pytest.approx(1.001e9), unit="byte", num_rows=2),
            "sm__throughput.avg.pct": CounterMean(value=50.0, unit="%", num_rows=2),
        }
    }


def test_details_are_distinguished_by_their_section(tmp_path: Path) -> None:
    readings = read(tmp_path, DETAILS)[TRITON]
    assert {name: (item.value, item.unit) for name, item in readings.items()} == {
        "gpu__time_duration.sum": (pytest.approx(3e-6), "s"),
        "GPU Speed Of Light Throughput: Memory Throughput": (45.7, "%"),
        "Memory Workload Analysis: Memory Throughput": (1.5e9, "byte/s"),
    }


def test_a_packed_file_is_read_as_well(tmp_path: Path) -> None:
    assert read(tmp_path, gzip.compress(RAW.encode())) == read(tmp_path, RAW)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name,latency\nbert,1\n",
        SUMMARY.splitlines()[3],
        SUMMARY[:-60],
        # A kernel of another name, if it were whole.
        SUMMARY[: SUMMARY.index("fused")],
        RAW[: RAW.index('"60"')],
        RAW.replace('"1,000.50"', '"1.000,50"'),
        SUMMARY.replace(",3,", ",many,"),
        SUMMARY.replace("Med (ns)", "Avg (ns)"),
        SUMMARY + "\n" + SUMMARY,
        DETAILS.replace('"ns"', '"cycle"'),
        b"\xff\xfe" + SUMMARY.encode("utf-16-le"),
        gzip.compress(RAW.encode())[:-9],
    ],
    ids=short_id,
)
def test_an_invalid_table_is_one_line_with_its_position(
    tmp_path: Path, text: str | bytes, words: SnapshotAssertion
) -> None:
    with pytest.raises(ImportFailed) as caught:
        read(tmp_path, text)
    assert str(caught.value) == words
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", ["MAX_KERNELS", "MAX_COUNTERS"])
def test_no_file_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(nsight, limit, 1)
    with pytest.raises(ImportFailed) as caught:
        read(tmp_path, SUMMARY)
    assert str(caught.value) == words


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(st.sampled_from([SUMMARY, RAW, DETAILS]), st.data())
def test_a_file_that_is_cut_or_changed_anywhere_is_read_or_refused(
    tmp_path: Path, text: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(text)))
    put = data.draw(st.text(max_size=3))
    end = data.draw(st.integers(index, len(text)))
    try:
        readings = read(tmp_path, (text[:index] + put + text[end:]).encode(errors="replace"))
    except ImportFailed:
        return
    assert all(readings.values())


def test_names_match_whole_or_by_their_function_alone() -> None:
    kernel_names = [TRITON, VECTORIZED, "void f<1>(int)", "void f<2>(int)", "gone"]
    names = [TRITON, "vectorized_elementwise_kernel", "f", "(anonymous namespace)::other<3>(int)"]
    assert match_names(names, kernel_names=kernel_names) == {
        TRITON: TRITON,
        VECTORIZED: "vectorized_elementwise_kernel",
    }
