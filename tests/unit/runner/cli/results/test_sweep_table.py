"""Other shapes of a case result, as text."""

from __future__ import annotations

import pytest

from compile_hud.runner.cli.results.case_tables import print_sweep, sweep_row
from tests.support.builders import make_result

ROW = {
    "value": 16,
    "eager_s": [0.004, 0.005, 0.006],
    "variant_s": [0.002, 0.002, 0.002],
    "compile_s": 2.9,
    "num_recompiles": 1,
    "recompiles": [{"reason": "expected 64, actual 16"}],
    "reason": "",
}


def test_a_shape_has_its_times_and_what_was_compiled_again() -> None:
    guard = "expected 64, actual 16"
    assert sweep_row(ROW) == ("16", "5.00 ms", "2.00 ms", "2.50x", "1: 2.90 s", guard, "right")


def test_a_wrong_shape_says_so() -> None:
    calm = {**ROW, "num_recompiles": 0, "compile_s": None, "recompiles": [], "reason": "cosine .1"}
    assert sweep_row(calm)[4:] == ("-", "-", "inaccurate: cosine .1")


def test_a_result_without_other_shapes_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_sweep(make_result("r1"))
    print_sweep(make_result("r1", details={"shapes": {"axis": "length", "rows": []}}))
    assert capsys.readouterr().out == ""
    print_sweep(make_result("r1", details={"shapes": {"axis": "length", "rows": [ROW]}}))
    title, header, row = capsys.readouterr().out.strip().splitlines()
    assert title == "other shapes"
    assert header.split()[:2] == ["length", "eager"]
    assert row.split()[0] == "16"
