"""CSV files that a spreadsheet opens as text and numbers, never as formulas."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.app.ui.csv import csv_text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " =", "\n+"])
def test_what_a_spreadsheet_would_execute_has_an_apostrophe(start: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_text(["name"], [[f"{start}SUM(A1)"]])))
    assert row[0].startswith("'")
    assert row[0].endswith("SUM(A1)")


@pytest.mark.parametrize("start", ["\t", "\r", "\u202e", "\x00"])
def test_what_is_not_printed_hides_no_formula(start: str) -> None:
    assert csv_text(["name"], [[f"{start}=1"]]) == "name\r\n?=1\r\n"


def test_numbers_keep_their_sign_and_nothing_is_empty() -> None:
    assert csv_text(["a", "b", "c"], [[-1.5, None, True]]) == "a,b,c\r\n-1.5,,True\r\n"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1))
def test_every_row_has_as_many_cells_as_it_was_given(texts: list[str]) -> None:
    rows = list(csv.reader(io.StringIO(csv_text(["name"] * len(texts), [texts]))))
    assert len(rows[-1]) == len(texts)
    assert not any(cell[:1] in "=+-@\t\r" for cell in rows[-1] if cell)
