"""The compilations of a result, as rows of a table."""

from __future__ import annotations

from typing import Any

from compile_hud.db.shared.compilations import compilations_of, phases_in


def compilation(compile_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "compile_id": compile_id,
        "is_backward": False,
        "phases_s": {"dynamo": 1.0},
        "function": "",
        "file": "",
        "line": None,
        "reason": "",
        "failure": "",
        "num_ops": None,
        "num_guards": None,
        **fields,
    }


def test_the_compilations_of_the_first_launch_have_title_place_and_cause() -> None:
    first = compilation(
        "3/1",
        phases_s={"cudagraphs": 0.5, "backend": 2.0, "dynamo": 0.25},
        function="step",
        file="/src/net.py",
        line=17,
        reason="n == 4",
        failure="RecompileLimit",
    )
    second = compilation("3/0", is_backward=True, function="step")
    rows = compilations_of({"compilations": [[first, second, compilation("")], None]})
    assert [row.title for row in rows] == ["3/1", "3/0 backward", "no id"]
    assert [row.location for row in rows] == ["step at net.py:17", "step", ""]
    assert [row.reason for row in rows] == ["RecompileLimit; n == 4", "", ""]
    assert rows[0].total_s == 2.75
    assert phases_in(rows) == ["dynamo", "backend", "cudagraphs"]


def test_results_without_compilations_have_none() -> None:
    for details in ({}, {"compilations": []}, {"compilations": [None, [compilation("0/0")]]}):
        assert compilations_of(details) == []
    assert phases_in([]) == []
