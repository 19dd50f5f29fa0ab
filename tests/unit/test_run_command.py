"""Which news fail a run."""

from __future__ import annotations

from db.records import Verdict
from runner.commands.run import regressions_on
from tests.builders import make_alert


def test_a_step_is_news_of_the_night_that_makes_it_sure() -> None:
    alert = make_alert(machine="box")
    assert regressions_on("box", [alert]) == [alert]


def test_other_machines_and_improvements_fail_no_run() -> None:
    improvement = make_alert(machine="box", verdict=Verdict.IMPROVEMENT)
    assert regressions_on("box", [improvement, make_alert(machine="other")]) == []
