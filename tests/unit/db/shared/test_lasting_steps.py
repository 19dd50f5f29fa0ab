from __future__ import annotations

import pytest

from compile_hud.db.shared.lasting_steps import LastingSteps


def failing() -> bool:
    raise OSError(23, "Too many open files in system")


def test_an_error_of_a_step_is_its_problem_until_a_step_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps = LastingSteps("clock")
    assert [steps.run(failing), steps.run(failing)] == [False, False]
    assert "[Errno 23]" in steps.problem
    assert [record.args for record in caplog.records] == [("clock",)]
    assert steps.run(lambda: True)
    assert steps.problem == ""


def test_the_result_of_a_step_is_returned() -> None:
    steps = LastingSteps("clock")
    assert [steps.run(lambda: True), steps.run(lambda: False)] == [True, False]


def test_an_exit_passes() -> None:
    def exiting() -> bool:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        LastingSteps("clock").run(exiting)
