"""Estimates of how long the cases of a plan take."""

from __future__ import annotations

import pytest

from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.runner.format import rough_duration
from compile_hud.runner.planning.estimate import DEFAULTS, REFERENCE_S, estimate_cases
from tests.support.builders import make_case

EAGER = make_case("net", variant="eager", mode="eager")
COMPILED = make_case("net")
OTHER = make_case("other")


def test_a_known_case_takes_its_last_time_and_another_the_median_of_its_kind() -> None:
    known = {
        COMPILED.key: CaseSeconds(took_s=10.0),
        make_case("a").key: CaseSeconds(took_s=20.0),
        make_case("b").key: CaseSeconds(took_s=90.0),
        make_case("c", variant="eager", mode="eager").key: CaseSeconds(took_s=1.0),
    }
    estimates = estimate_cases(
        [EAGER, COMPILED, OTHER], known=known, num_launches=3, num_processes=0
    )
    assert [item.seconds for item in estimates] == [1.0, 10.0, 20.0]
    assert all(item.is_known for item in estimates)


def test_without_history_the_launches_count() -> None:
    two, five = (
        estimate_cases([EAGER, COMPILED], known={}, num_launches=number, num_processes=0)
        for number in (2, 5)
    )
    for short, long, is_eager in zip(two, five, (True, False), strict=True):
        later = DEFAULTS["cpu", is_eager].later.took_s
        assert long.seconds - short.seconds == pytest.approx(3 * later)
        assert not short.is_known


def test_cases_that_compile_at_a_time_make_a_run_longer_by_a_part() -> None:
    known = {COMPILED.key: CaseSeconds(took_s=50.0, alone_s=10.0)}
    (one,) = estimate_cases([COMPILED], known=known, num_launches=2, num_processes=4)
    assert one.seconds == 20.0


def test_a_reference_case_is_no_model() -> None:
    reference = make_case("ref_gemm", family=REFERENCE_FAMILY, variant="eager", mode="eager")
    known = {reference.key: CaseSeconds(took_s=0.5)}
    estimates = estimate_cases([reference, EAGER], known=known, num_launches=1, num_processes=0)
    assert estimates[0].seconds == 0.5
    assert estimates[1].seconds == DEFAULTS["cpu", True].first.took_s
    assert not estimates[1].is_known
    (unknown,) = estimate_cases([reference], known={}, num_launches=3, num_processes=0)
    assert unknown.seconds == REFERENCE_S


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "5 seconds"),
        (21.0, "20 seconds"),
        (57.4, "55 seconds"),
        (58.0, "1 minute"),
        (80.0, "1 minute"),
        (355.0, "6 minutes"),
        (3599.0, "60 minutes"),
        (3600.0, "1 hour"),
        (9_700.0, "2 hours 40 minutes"),
        (35_990.0, "10 hours"),
        (90_000.0, "25 hours"),
    ],
)
def test_a_duration_is_as_exact_as_an_estimate(seconds: float, text: str) -> None:
    assert rough_duration(seconds) == text
