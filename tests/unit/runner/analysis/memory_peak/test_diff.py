"""The changes of memory at the peak between two results."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.memory.peak import MAX_HOLDERS, HolderKind, PeakHolders
from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.memory_peak.diff import (
    diff_memory,
    diff_of,
    growth_of,
    memory_bounds,
)
from tests.support.builders import make_alert, make_run, make_run_ref
from tests.support.records.memory_peaks import MIB, make_holder, make_peak

HOLDERS = st.lists(
    st.builds(
        make_holder,
        st.sampled_from(["aten::mm", "aten::add", *(f"op{number}" for number in range(30))]),
        st.integers(1, 1000),
        module=st.sampled_from(["", "a", "b"]),
    ),
    max_size=60,
)
MM = make_holder("aten::mm", 8 * MIB, module="layers.0", line="/old/net.py:9")


@given(HOLDERS, HOLDERS)
def test_the_changes_add_up_and_the_mirror_image_negates_them(
    before: list[object], after: list[object]
) -> None:
    sides = [PeakHolders.of(side) for side in (before, after)]  # type: ignore[arg-type]
    diff, mirror = diff_memory(*sides), diff_memory(*reversed(sides))
    assert sum(row.change_bytes for row in diff.rows) == diff.change_bytes
    assert diff.change_bytes == sides[1].num_bytes - sides[0].num_bytes
    assert {row.holder.key: row.change_bytes for row in diff.rows} == {
        row.holder.key: -row.change_bytes for row in mirror.rows
    }


def test_a_planted_allocation_is_the_first_row() -> None:
    planted = make_holder("aten::exp", 3 * MIB, module="layers.0", line="/new/net.py:11")
    diff = diff_memory(make_peak(MM), make_peak(MM, planted))
    assert [row.label for row in diff.changed] == ["aten::exp in `layers.0`, net.py:11"]
    assert (diff.rows[0].change_bytes, diff.rows[0].text) == (3 * MIB, "new")
    assert growth_of(diff, is_more=True) == [diff.rows[0]]
    assert growth_of(diff, is_more=False) == []


def test_a_holder_matches_on_another_line() -> None:
    moved = dataclasses.replace(MM, line="/new/net.py:12", num_bytes=10 * MIB)
    (row,) = diff_memory(make_peak(MM), make_peak(moved)).changed
    assert (row.text, row.change_bytes, row.where) == (
        "other size",
        2 * MIB,
        " in `layers.0`, net.py:12",
    )


def test_more_allocations_are_counted() -> None:
    twice = dataclasses.replace(MM, num_bytes=16 * MIB, count=2)
    (more,) = diff_memory(make_peak(MM), make_peak(twice)).changed
    (fewer,) = diff_memory(make_peak(twice), make_peak(MM)).changed
    assert (more.text, fewer.text) == ("+1 allocation", "-1 allocation")


def test_a_holder_of_one_side_may_be_among_the_rest_of_the_other() -> None:
    small = [make_holder(f"op{number}", 10 + number) for number in range(MAX_HOLDERS + 1)]
    diff = diff_memory(make_peak(*small), make_peak(MM))
    rows = {row.holder.operator: row for row in diff.rows}
    assert rows["aten::mm"].may_be_in_rest
    assert rows["aten::mm"].text.startswith("new, ")
    assert rows["op7"].text == "gone"
    assert rows["the rest"].change_bytes == -10


def test_the_row_of_the_rest_is_no_cause() -> None:
    rest = make_holder("the rest", MIB, kind=HolderKind.REST)
    diff = diff_memory(make_peak(), make_peak(rest))
    assert diff.changed
    assert growth_of(diff, is_more=True) == []


def test_without_holders_on_a_side_there_is_no_diff() -> None:
    assert diff_of(None, make_peak()) is None
    assert diff_of(make_peak(), None) is None


def test_only_alerts_about_memory_have_bounds() -> None:
    good, bad = (make_run_ref(make_run(name)) for name in ("run-0", "run-1"))
    alert = make_alert(
        metric="peak_bytes", verdict=Verdict.REGRESSION, last_good=good, first_bad=bad
    )
    key = alert.case.key
    assert memory_bounds(alert) == (("run-0", key), ("run-1", key))
    assert memory_bounds(dataclasses.replace(alert, metric="latency_s")) == ()
    assert memory_bounds(dataclasses.replace(alert, last_good=None)) == ()
