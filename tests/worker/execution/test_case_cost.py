"""The costs of a case beyond its steps, and the costs that cases of a run share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.execution.local_executor import LocalExecutor
from tests.support.runs.launches import order


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory of these tests alone: they look what is left in it."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def results(state_dir: Path) -> dict[str, CaseResult]:
    """Return the results of two variants of one model, by name, of a run that is over."""
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    try:
        return {
            variant: local.execute(order("plain", variant=variant, num_launches=2, max_launches=2))
            for variant in ("eager", "aot_eager")
        }
    finally:
        local.close()


@pytest.mark.nightly
def test_a_launch_reports_how_long_it_took_from_outside(results: dict[str, CaseResult]) -> None:
    result = results["eager"]
    walls_s = result.details["launch_wall_s"]
    last_steps = [launch[-1] for launch in result.details["steps"]]
    assert len(walls_s) == len(last_steps) == 2
    assert all(wall_s > step["end_s"] for wall_s, step in zip(walls_s, last_steps, strict=True))
    assert sum(walls_s) < (result.finished_at - result.started_at).total_seconds()


@pytest.mark.nightly
def test_a_variant_takes_the_oracle_that_eager_computed(results: dict[str, CaseResult]) -> None:
    assert results["eager"].details["oracle"] == "computed"
    assert results["aot_eager"].details["oracle"] == "shared"


@pytest.mark.nightly
@pytest.mark.usefixtures("results")
def test_what_cases_share_goes_with_their_run(state_dir: Path) -> None:
    assert list((state_dir / "work").iterdir()) == []
