"""The defaults of `hud run --dry-run` are those of the recorded measurements."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict

import pytest

from benchmarks.compile_ahead import ledger_costs
from compile_hud.db.records.results import Case
from compile_hud.runner.planning.estimate import DEFAULTS, REFERENCE_S, RUN_S
from tests.support.sources import text_of

# They are rounded to a tenth of a second.
ROUNDING_S = 0.06


def test_defaults_of_a_cpu_are_the_launches_of_the_quick_suite() -> None:
    starts = json.loads(text_of("benchmarks/results/overhead.json"))["starts"]
    launches = defaultdict(list)
    for start in starts:
        for launch in start["launches"]:
            kind = Case.parse_key(launch["case"]).variant == "eager"
            launches[kind, launch["launch"] == 0].append(launch["wall_s"])
    for is_eager in (True, False):
        usual = DEFAULTS["cpu", is_eager]
        first, later = (statistics.mean(launches[is_eager, is_first]) for is_first in (True, False))
        assert usual.first.took_s == pytest.approx(first, abs=ROUNDING_S)
        assert usual.later.took_s == pytest.approx(later, abs=ROUNDING_S)


def test_the_rest_of_a_run_is_that_of_the_quick_suite() -> None:
    starts = json.loads(text_of("benchmarks/results/overhead.json"))["starts"]
    references = [start["parts_s"]["reference_cases"] for start in starts]
    rest = [
        start["wall_s"]
        - sum(launch["wall_s"] for launch in start["launches"])
        - start["parts_s"]["reference_cases"]
        for start in starts
    ]
    assert pytest.approx(statistics.mean(rest), abs=0.5) == RUN_S
    num_references = starts[0]["num_reference_cases"]
    assert pytest.approx(statistics.mean(references) / num_references, abs=0.1) == REFERENCE_S


def test_defaults_of_a_gpu_are_the_launches_of_the_ledger() -> None:
    costs = defaultdict(list)
    for (_phase, mode, is_first), known in ledger_costs().items():
        costs[mode == "eager", is_first] += known
    for is_eager in (True, False):
        usual = DEFAULTS["cuda", is_eager]
        for seconds, is_first in ((usual.first, True), (usual.later, False)):
            known = costs[is_eager, is_first]
            alone_s = statistics.mean(cost.device_s for cost in known)
            took_s = alone_s + statistics.mean(cost.compile_s for cost in known)
            assert seconds.alone_s == pytest.approx(alone_s, abs=ROUNDING_S)
            assert seconds.took_s == pytest.approx(took_s, abs=ROUNDING_S)
