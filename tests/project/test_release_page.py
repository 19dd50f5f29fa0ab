"""docs/explanation/torch-releases.md is the report of the stored runs."""

from __future__ import annotations

from benchmarks.release_page import PAGE, page_text, read_pair
from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.release.runs import rules_of


def test_the_page_is_drawn_from_the_runs() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(*read_pair()), (
        "run `python -m benchmarks.release_page`"
    )


def test_the_runs_are_two_builds_with_launches_in_turn() -> None:
    baseline, candidate = read_pair()
    builds = [side.run.environment["torch_git"] for side in (baseline, candidate)]
    assert all(builds)
    assert builds[0] != builds[1]
    assert not any(side.run.is_synthetic for side in (baseline, candidate))
    assert rules_of(baseline.run) == rules_of(candidate.run)
    models = {item.case.model for item in candidate.results if item.outcome is Outcome.OK}
    assert len({name for name in models if not name.startswith("ref_")}) >= 8
