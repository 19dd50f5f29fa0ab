"""The tables of memory at the peak."""

from __future__ import annotations

import html
import re

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.memory.data import memory_changes
from compile_hud.app.views.memory.tables import change_table, holder_table, memory_sentence
from compile_hud.runner.analysis.memory_peak.diff import diff_memory
from tests.support.records.memory_peaks import MIB, make_holder, make_peak


def rows_of(table: str) -> list[list[str]]:
    """Return the texts of the cells, row by row, without the heading."""
    rows = re.findall(r"<tr\b.*?</tr>", table.partition("</thead>")[2], re.DOTALL)
    return [
        [
            html.unescape(re.sub(r"<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<td\b.*?</td>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_bytes_are_in_the_unit_of_the_largest_holder() -> None:
    html = holder_table(make_peak(make_holder("aten::mm", 2 * MIB), make_holder("aten::add", 8)))
    assert "memory (MiB)" in html
    assert [row[0] for row in rows_of(html)] == ["4.00", "2.00", "<0.01"]


def test_changes_have_signs_and_both_sides(words: SnapshotAssertion) -> None:
    before, after = make_holder("aten::mm", 3 * MIB), make_holder("aten::exp", MIB, module="a")
    changes = memory_changes(diff_memory(make_peak(before), make_peak(after)))
    assert changes is not None
    assert [row[:5] for row in rows_of(change_table(changes))] == [
        ["-3.00", "3.00", "-", "aten::mm", "-"],
        ["+1.00", "-", "1.00", "aten::exp", "a"],
    ]
    assert memory_sentence(changes) == words


def test_equal_sides_have_no_table() -> None:
    changes = memory_changes(diff_memory(make_peak(), make_peak()))
    assert changes is not None
    assert change_table(changes) == ""
    assert memory_sentence(changes).count("4.00 MiB") == 2
    assert memory_changes(None) is None
