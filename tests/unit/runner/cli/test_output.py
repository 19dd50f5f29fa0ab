"""Tables in a terminal and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from compile_hud.runner.cli.tables import MAX_CELL, MAX_PROSE, Column, print_table


@pytest.mark.parametrize("sign", ["\n", "\r\n", "\r", "\v", "\N{LINE SEPARATOR}", "\x1b", "\t"])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_row_is_one_line_whatever_a_model_is_called(sign: str, is_terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=is_terminal, color_system=None)
    columns = [Column(name="case"), Column(name="state")]
    print_table(columns, rows=[(f"bert{sign}large", "open"), ("gpt2", "open")], console=console)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].startswith(("bert large", "bert?large"))
    # Columns stand below each other.
    assert [line.rstrip().find("open") for line in lines[1:]] == [12, 12]


def test_spaces_within_a_cell_stay() -> None:
    stream = io.StringIO()
    print_table(
        [Column(name="part")], rows=[("  a  part",)], console=Console(file=stream, width=80)
    )
    assert "  a  part" in stream.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_name_is_cut(is_terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=1000, force_terminal=is_terminal, color_system=None)
    columns = [Column(name="suite"), Column(name="what", is_prose=True), Column(name="state")]
    rows = [("s" * 10_000, "w" * 10_000, "open"), ("s" * MAX_CELL, "w" * MAX_PROSE, "open")]
    print_table(columns, rows=rows, console=console)
    cut, whole = (line.split() for line in stream.getvalue().splitlines()[1:])
    assert list(map(len, cut)) == list(map(len, whole)) == [MAX_CELL, MAX_PROSE, 4]
    assert cut[0].endswith("s...")
    assert cut[1].endswith("w...")
    assert "." not in "".join(whole)
