"""The location of traces, and the valid names and addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.db.shared.trace_paths import find_trace, is_web_address, trace_name, traces_folder


def test_an_id_that_would_leave_the_folder_names_no_file() -> None:
    assert trace_name("0f3a") == "0f3a.json.gz"
    hostile = ("../x", "a/b", "", ".hidden", "a\0b", "a b", "x" * 101, "-rf", "a\n")
    assert [trace_name(result_id) for result_id in hostile] == [None] * len(hostile)
    assert [find_trace(Path(), result_id) for result_id in hostile] == [None] * len(hostile)


@pytest.mark.parametrize(
    ("url", "named", "folder"),
    [
        ("duckdb:////data/hud.duckdb", None, Path("/data/hud.duckdb.traces")),
        ("duckdb:////data/hud.duckdb", Path("/shared"), Path("/shared")),
        ("duckdb:///:memory:", None, None),
        ("postgresql+psycopg://me@host/hud", None, None),
        ("postgresql+psycopg://me@host/hud", Path("/shared"), Path("/shared")),
    ],
)
def test_traces_lie_next_to_a_file_or_where_they_are_configured(
    url: str, named: Path | None, folder: Path | None
) -> None:
    assert traces_folder(url, named=named) == folder


def test_without_a_folder_there_is_no_trace() -> None:
    assert find_trace(None, "0f3a") is None


@pytest.mark.parametrize("text", ["https://ui.perfetto.dev", "http://localhost:10000/v1/ui/"])
def test_the_address_of_a_page_is_taken(text: str) -> None:
    assert is_web_address(text)


@pytest.mark.parametrize(
    "text", ["", "javascript:alert(1)", "//host", "https://", "https://a b", "https://a/?x", "a.b"]
)
def test_anything_else_is_no_address(text: str) -> None:
    assert not is_web_address(text)
