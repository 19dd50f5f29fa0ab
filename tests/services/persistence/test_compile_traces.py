"""The choice of cases with a log of the compiler, and the report of such a log."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.persistence.compile_traces import CompileTraces
from compile_hud.runner.protocol.messages import TracePolicy
from tests.support.builders import make_case, make_result

NEVER, FAILED, CHANGED, ALWAYS = TracePolicy


def result(outcome: Outcome = Outcome.OK, *, sha256: str = "a", variant: str = "default") -> Any:
    backend = "eager" if variant == "eager" else "inductor"
    return make_result(
        case=make_case("vit", variant=variant, backend=backend),
        outcome=outcome,
        details={"generated_code_sha256": sha256},
    )


@pytest.mark.parametrize(
    ("outcome", "chosen_by"),
    [
        (Outcome.OK, {ALWAYS}),
        (Outcome.FAILED, {FAILED, CHANGED, ALWAYS}),
        (Outcome.INACCURATE, {FAILED, CHANGED, ALWAYS}),
        (Outcome.SAME_CODE, set()),
        (Outcome.TIMEOUT, set()),
    ],
)
def test_a_policy_chooses_cases_by_their_outcome(
    tmp_path: Path, outcome: Outcome, chosen_by: set[TracePolicy]
) -> None:
    traces = CompileTraces(tmp_path)
    chosen = {policy for policy in TracePolicy if traces.is_chosen(result(outcome), policy=policy)}
    assert chosen == chosen_by
    assert not traces.is_chosen(result(outcome, variant="eager"), policy=ALWAYS)


def test_a_case_has_changed_when_the_last_run_generated_other_code(tmp_path: Path) -> None:
    def chosen(sha256: str) -> bool:
        # Each run has an executor of its own.
        return CompileTraces(tmp_path / "traces").is_chosen(result(sha256=sha256), policy=CHANGED)

    assert [chosen(sha256) for sha256 in "aabbab"] == [False, False, True, False, True, True]


def test_the_code_of_another_toolchain_is_no_change(tmp_path: Path) -> None:
    def chosen(python: str, sha256: str) -> bool:
        traces = CompileTraces(tmp_path, python=Path(python))
        return traces.is_chosen(result(sha256=sha256), policy=CHANGED)

    nights = [("stable", "a"), ("nightly", "b"), ("stable", "a"), ("nightly", "b"), ("stable", "c")]
    assert [chosen(*night) for night in nights] == [False] * 4 + [True]


def test_a_damaged_file_of_hashes_is_that_of_a_first_run(tmp_path: Path) -> None:
    (tmp_path / "generated-code.json").write_text("{", encoding="ascii")
    assert not CompileTraces(tmp_path).is_chosen(result(), policy=CHANGED)
    assert CompileTraces(tmp_path).is_chosen(result(sha256="b"), policy=CHANGED)


def test_a_log_has_its_folder_and_the_report_of_tlparse(tmp_path: Path) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_settings: Any) -> None:
        commands.append(command)
        (tmp_path / "tlparse").mkdir()
        (tmp_path / "tlparse" / "index.html").touch()

    traces = CompileTraces(tmp_path, which=lambda _name: "/bin/tlparse", run=run)
    assert traces.details(tmp_path / "missing") == {}
    log = tmp_path / "dedicated_log_torch_trace_x.log"
    log.touch()
    assert traces.details(tmp_path) == {
        "folder": str(tmp_path),
        "tlparse": str(tmp_path / "tlparse" / "index.html"),
    }
    assert commands[0][:2] == ["/bin/tlparse", str(log)]


@pytest.mark.parametrize(
    "error", [OSError("gone"), subprocess.TimeoutExpired("tlparse", 1.0), None]
)
def test_a_report_that_fails_costs_only_itself(tmp_path: Path, error: Exception | None) -> None:
    def run(*_command: Any, **_settings: Any) -> None:
        if error is not None:
            raise error

    (tmp_path / "x.log").touch()
    traces = CompileTraces(tmp_path, which=lambda _name: "/bin/tlparse", run=run)
    assert traces.details(tmp_path) == {"folder": str(tmp_path)}
    without = CompileTraces(tmp_path, which=lambda _name: None, run=run)
    assert without.details(tmp_path) == {"folder": str(tmp_path)}


def test_each_case_of_a_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    case: CaseResult = result()
    folder = CompileTraces(tmp_path).folder_of(case.case, run_id="r7")
    assert folder.parent == tmp_path / "r7"
    assert folder.name == case.case.key.replace("/", "-")
