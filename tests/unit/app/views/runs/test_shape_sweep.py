"""Other shapes of a case result, as a table and as a chart."""

from __future__ import annotations

from typing import Any

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.charts import sweep_spec
from compile_hud.app.views.runs.data import sweep_of
from compile_hud.app.views.runs.shape_sweep import (
    SweepValues,
    sweep_legend,
    sweep_rows,
    sweep_table,
)
from tests.support.texts import html_words

GUARD = {"reason": "expected 8, actual 4", "file": "net.py", "line": 3, "function": "forward"}


def row(value: int, **changed: Any) -> dict[str, Any]:
    return {
        "value": value,
        "eager_s": [0.004, 0.005, 0.006],
        "variant_s": [0.002, 0.0025, 0.002],
        "first_call_s": 3.0,
        "compile_s": None,
        "num_recompiles": 0,
        "recompiles": [],
        "has_given_up": False,
        "reason": "",
        "accuracy": {},
        **changed,
    }


def details(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"shapes": {"axis": "source_length", "own": 8, "clock": "wall time", "rows": list(rows)}}


def swept(*rows: dict[str, Any]) -> SweepValues:
    sweep = sweep_of(details(*rows))
    assert sweep is not None
    return sweep


AGAIN = row(4, num_recompiles=1, compile_s=2.9, recompiles=[GUARD])
SWEEP = swept(AGAIN, row(8))


def test_a_result_without_other_shapes_has_no_sweep() -> None:
    assert sweep_of({}) is None
    assert sweep_of(details()) is None


def test_each_side_has_its_median_and_interval() -> None:
    shape = SWEEP.shapes[0]
    assert (shape.eager.median, shape.eager.low, shape.eager.high) == (0.005, 0.004, 0.006)
    # Round by round: 2, 2, 3; of six rounds or fewer from the smallest to the largest.
    assert (shape.speedup.median, shape.speedup.low, shape.speedup.high) == (2.0, 2.0, 3.0)
    assert shape.num_rounds == 3


def test_the_table_says_what_was_compiled_again_and_why() -> None:
    html = sweep_table(SWEEP, variant="dynamic")
    assert "source length" in html
    assert "dynamic (ms)" in html
    assert "1: 2.90 s" in html
    assert "expected 8, actual 4" in html
    assert html.count("own shape") == 1
    assert html.count(">right<") == 2


def test_a_wrong_shape_says_what_is_wrong_with_it(words: SnapshotAssertion) -> None:
    sweep = swept(row(8, reason="outputs: cosine <0.3>", has_given_up=True))
    html = sweep_table(sweep, variant="default")
    assert "inaccurate: outputs: cosine &lt;0.3&gt;" in html
    assert html_words(html) == words


def test_labels_are_on_the_variant_alone() -> None:
    rows = sweep_rows(SWEEP, variant="dynamic")
    assert [(item["value"], item["side"], item["label"], item["text"]) for item in rows] == [
        (4, "eager", "", ""),
        (4, "dynamic", "+2.90 s", "1: 2.90 s"),
        (8, "eager", "", ""),
        (8, "dynamic", "", "-"),
    ]
    assert rows[0]["median"] == 5.0
    wrong = swept(row(8, reason="wrong", num_recompiles=2, compile_s=1.0), row(9, reason="wrong"))
    labels = [item["label"] for item in sweep_rows(wrong, variant="v")]
    assert labels == ["", "+1.00 s, inaccurate", "", "inaccurate"]


def test_the_chart_has_a_diamond_where_something_was_compiled_again() -> None:
    spec = sweep_spec(sweep_rows(SWEEP, variant="v"), axis="length", title="latency (ms)")
    kinds = [layer["mark"]["type"] for layer in spec["layer"]]
    assert kinds == [*("line", "rule", "point") * 2, "point", "text", "text"]
    (diamonds,) = (layer for layer in spec["layer"] if layer["mark"].get("shape") == "diamond")
    assert [item["value"] for item in diamonds["data"]["values"]] == [4]
    names = spec["layer"][-1]["data"]["values"]
    assert [item["side"] for item in names] == ["eager", "v"]


def test_the_legend_has_a_diamond_only_where_the_chart_has_one() -> None:
    def signs(sweep: SweepValues) -> list[str]:
        return [item.sign for item in sweep_legend(sweep, variant="dynamic")]

    assert signs(swept(row(8), row(9))) == ["point-line", "hollow-line"]
    assert signs(SWEEP)[2:] == ["diamond-open"]
    assert signs(swept(row(8), row(9, reason="wrong")))[2:] == ["diamond-open"]
