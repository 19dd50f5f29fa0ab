"""Which news fail a run."""

from __future__ import annotations

from db.records import Verdict
from runner.commands.run import regressions_of
from tests.builders import make_alert, make_run

RUN = make_run(machine="box", toolchain="stable")


def test_a_step_is_news_of_the_night_that_makes_it_sure() -> None:
    alert = make_alert(machine="box")
    assert regressions_of(RUN, [alert]) == [alert]


def test_other_machines_other_toolchains_and_improvements_fail_no_run() -> None:
    others = [
        make_alert(verdict=Verdict.IMPROVEMENT),
        make_alert(machine="other"),
        make_alert(toolchain="nightly"),
    ]
    assert regressions_of(RUN, others) == []
