"""A short version of the benchmark `soak`."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.soak import Look, judge_before, look, simulated, slope_of, soak
from benchmarks.startup import RESULTS
from compile_hud.db.queries.runs import load_run_ids
from compile_hud.runner.config.load import load_config


def test_cases_in_a_row_leave_no_process_no_descriptor_and_no_file(
    tmp_path: Path,
) -> None:
    *_, it = soak(tmp_path, num_cases=12, num_shapes=3, toolchains=simulated(tmp_path))
    growth = it.summary(num_warm_up=3)
    assert growth["outcomes"] == {"ok": 12}
    assert growth["num_open_jobs"] == 0
    for name in ("num_descriptors", "num_threads", "num_processes", "num_files"):
        assert growth["slopes"][name]["slope_per_1000_cases"] <= 0, name
    assert growth["most_while_measuring"]["num_processes"] >= 1


def test_nights_that_were_judged_before_leave_nothing_where_the_soak_looks(tmp_path: Path) -> None:
    before = judge_before(tmp_path / "before", num_nights=2, num_shapes=2)
    assert not (tmp_path / "ends.jsonl").exists()
    assert before.summary(num_warm_up=0)["outcomes"] == {"ok": 4}
    assert len((tmp_path / "before" / "ends.jsonl").read_text().splitlines()) == 2


def test_a_look_does_not_count_the_names_of_the_files_it_counts(tmp_path: Path) -> None:
    config = load_config(None, env={"HUD_STATE_DIR": str(tmp_path)})
    assert config.traces_dir is not None
    config.traces_dir.mkdir()

    def now() -> Look:
        gc.collect()
        return look(0, config=config, started_s=0.0)

    now()
    before = now()
    for number in range(1000):
        (config.traces_dir / f"{number:04d}").touch()
    after = now()
    assert after.num_trace_files - before.num_trace_files == 1000
    assert after.num_files == before.num_files
    assert after.num_blocks - before.num_blocks < 500


def test_the_history_stays_as_it_was_after_the_warm_up(tmp_path: Path) -> None:
    numbers = [
        len(load_run_ids(it.workspace.store()))
        for it in soak(
            tmp_path,
            num_cases=5,
            num_shapes=1,
            num_warm_up=2,
            toolchains=simulated(tmp_path),
        )
    ]
    assert numbers == [1, 2, 3, 3, 3]


def test_a_leak_is_found(tmp_path: Path) -> None:
    # Far more than what a process grows by in its first runs.
    leak_bytes = 1_000_000
    *_, it = soak(
        tmp_path,
        num_cases=5,
        num_shapes=1,
        num_warm_up=1,
        toolchains=simulated(tmp_path),
        leak_bytes=leak_bytes,
    )
    slope = it.summary(num_warm_up=1)["slopes"]["heap_bytes"]
    assert slope["low_per_1000_cases"] > 900 * leak_bytes


@pytest.mark.parametrize("name", ["heap_bytes", "anonymous_bytes", "resident_bytes"])
def test_a_leak_of_1_kb_a_case_is_visible_in_the_stored_soak(name: str) -> None:
    document = json.loads((RESULTS / "soak.json").read_text())
    later = [
        Look(**item) for item in document["ends"] if item["num_cases"] > document["num_warm_up"]
    ]
    assert slope_of(later, name)["low_per_1000_cases"] <= 0
    leaking = [
        Look(**{**asdict(item), name: getattr(item, name) + 1000 * item.num_cases})
        for item in later
    ]
    slope = slope_of(leaking, name)
    assert 0 < slope["low_per_1000_cases"] <= 1e6 <= slope["high_per_1000_cases"]
