"""The specification of a column of panels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.app.ui.charts import PICK
from compile_hud.app.views.trends.charts import (
    PART,
    Panel,
    PanelColumn,
    column_spec,
    panels_legend,
    share_domains,
    shared_domains,
)

TIME = ("2026-01-01T02:30:00Z", "2026-01-03T02:30:00Z")
ROW = {"at": TIME[0], "value": 2.0, "low": 1.9, "high": 2.1, "run_id": "a", "segment": 0}
COLUMNS = st.lists(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=5), min_size=1, max_size=4)


def column(*panels: Panel, has_line: bool = False) -> PanelColumn:
    lines = [{"at": TIME[0], "text": "new driver", "when": "then"}] if has_line else []
    return PanelColumn(title="default", panels=panels, lines=lines, time=TIME)


def panel(**changes: object) -> Panel:
    values = {"title": "speedup", "points": [ROW], "alerts": [], "domain": (1.0, 3.0)}
    return Panel(**{**values, **changes})  # type: ignore[arg-type]


@given(COLUMNS)
def test_equal_ratios_are_equally_high_in_every_panel(columns: list[list[float]]) -> None:
    domains, _ = shared_domains(columns, is_linear=False)
    ratios = [high / low for low, high in domains]
    assert ratios == pytest.approx([ratios[0]] * len(ratios))
    for (low, high), values in zip(domains, columns, strict=True):
        assert low < min(values) <= max(values) < high


def test_small_changes_fill_no_panel() -> None:
    ((low, high),), is_log = shared_domains([[2.0, 2.002]], is_linear=False)
    assert high / low > 1.04
    assert not is_log


def test_values_over_decades_have_a_logarithmic_axis() -> None:
    _, is_log = shared_domains([[1.0, 3.0], [2.0, 60.0]], is_linear=False)
    assert not is_log
    domains, is_log = shared_domains([[1.0, 3.0], [2.0, 70.0]], is_linear=False)
    assert is_log
    spec = column_spec(column(panel(domain=domains[0], is_log=True)))
    scales = [
        layer["encoding"]["y"]["scale"]["type"]
        for layer in spec["vconcat"][0]["layer"]
        if "scale" in layer["encoding"].get("y", {})
    ]
    assert set(scales) == {"log"}
    assert spec["vconcat"][0]["title"]["text"] == "speedup, log scale"


def test_numbers_that_vanish_in_the_unit_of_the_chart_have_a_range() -> None:
    domains, is_log = shared_domains([[0.0, 2.0], [3.0, 3.0]], is_linear=False)
    assert domains == [pytest.approx((-0.16, 2.16)), (2.0, 4.0)]
    assert not is_log
    ((low, high),), _ = shared_domains([[1e-300, 1e300]], is_linear=False)
    assert 0 < low < high < float("inf")


def test_changes_share_one_range() -> None:
    domains, is_log = shared_domains([[-1.0, 3.0], [0.0, -9.0]], is_linear=True)
    assert len(set(domains)) == 1
    assert domains[0][0] < -9 < 3 < domains[0][1]
    assert not is_log


def test_range_of_a_share_ends_above_100_and_begins_at_80_or_lower() -> None:
    ((low, high),) = share_domains([[100.0]])
    assert (low, high) == pytest.approx((80.0, 101.6))
    ((low, _), (other, _)) = share_domains([[100.0], [40.0, 100.0]])
    assert low == other < 40.0
    assert share_domains([[0.0]])[0][0] == 0.0


@pytest.mark.parametrize(("has_brush", "selections"), [(True, [PICK, PART]), (False, [PICK])])
def test_clicks_and_brushes_are_of_all_panels(has_brush: bool, selections: list[str]) -> None:
    spec = column_spec(column(panel(), panel(title="pass rate")), has_brush=has_brush)
    names = [
        layer["name"] for view in spec["vconcat"] for layer in view["layer"] if "name" in layer
    ]
    assert len(set(names)) == 2
    assert {item["name"]: item["views"] for item in spec["params"]} == dict.fromkeys(
        selections, names
    )


def test_only_the_last_panel_has_dates() -> None:
    spec = column_spec(column(panel(), panel(), panel()))
    labels = [
        {layer["encoding"]["x"]["axis"]["labels"] for layer in view["layer"]}
        for view in spec["vconcat"]
    ]
    assert labels == [{False}, {False}, {True}]


def test_single_panel_is_taller() -> None:
    one, two = (column_spec(column(*[panel()] * number)) for number in (1, 2))
    assert one["vconcat"][0]["height"] > two["vconcat"][0]["height"]


def test_layers_without_rows_are_left_out() -> None:
    bare = column_spec(column(panel(points=[{**ROW, "low": 2.0, "high": 2.0}])))
    alert = {"at": TIME[1], "verdict": "regression", "text": "slower", "when": "then"}
    full = column_spec(column(panel(alerts=[alert]), has_line=True))
    marks = [
        [layer["mark"]["type"] for layer in spec["vconcat"][0]["layer"]] for spec in (bare, full)
    ]
    assert marks == [["line", "point"], ["rule", "area", "line", "point", "point"]]


def test_rows_are_sent_once() -> None:
    other = [{**ROW, "value": 2.05}]
    spec = column_spec(column(panel(), panel(points=other), has_line=True))
    data = [layer["data"] for view in spec["vconcat"] for layer in view["layer"]]
    sent = {item["name"]: item["values"] for item in data if "values" in item}
    assert len(sent) == 3
    kinds = [list(item) for item in sent.values()]
    assert [rows for rows in kinds if "value" in rows[0]] == [[ROW], other]
    assert {item["name"] for item in data} == set(sent)


def test_legend_has_the_signs_of_the_panels_and_no_other() -> None:
    def signs(*columns: PanelColumn) -> list[str]:
        return [item.sign for item in panels_legend(columns)]

    calm = {**ROW, "is_change": False}
    exact = {**calm, "low": 2.0, "high": 2.0}
    worse = {"at": TIME[1], "verdict": "regression", "text": "", "when": ""}
    better = {**worse, "verdict": "improvement"}
    assert signs(column(panel(points=[calm]))) == ["band"]
    assert signs(column(panel(points=[exact]))) == ["point-line"]
    changed = column(panel(points=[{**calm, "is_change": True}], alerts=[worse]), has_line=True)
    assert signs(changed) == ["band", "diamond", "dashed", "up"]
    two = (column(panel(points=[exact], alerts=[better])), column(panel(points=[calm])))
    assert signs(*two) == ["band", "down"]
