"""A store whose newest results have a different answer to each question about modes.

Eager takes 10 ms a call. Inference at shape small: max-autotune is the fastest and inaccurate for
`ranker`; reduce-overhead has the code of default. Inference at shape full: no mode gains enough.
Training at shape small: default gains, and the device has no mode with CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

EAGER_S = 0.010
INACCURATE = make_case("ranker", shape="small", mode="max-autotune")
# The speedup and the compile time in seconds of each mode by phase and shape.
_NUMBERS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("inference", "small"): {"default": (1.5, 5.0), "max-autotune": (2.0, 50.0)},
    ("inference", "full"): {"default": (1.02, 5.0)},
    ("training", "small"): {"default": (1.3, 20.0)},
}
_WITHOUT_NUMBERS = {
    ("inference", "small", "reduce-overhead"): (Outcome.SAME_CODE, "same code as default"),
    ("training", "small", "reduce-overhead"): (Outcome.UNAVAILABLE, "no CUDA graphs on a CPU"),
}
_MODELS = ("bert", "ranker", "vit")


def fill_modes(store: Store, *, machine: str = "box", toolchain: str = "stable") -> Run:
    """Write a finished run of three models, and return it."""
    plan = list(_plan())
    run = make_run(
        f"modes-{machine}-{toolchain}",
        plan=plan,
        started_at=START,
        finished_at=START + timedelta(minutes=9),
        machine=machine,
        toolchain=toolchain,
    )
    results = tuple(_result(run, case) for case in plan)
    with store.write() as connection:
        put_documents(connection, [RunDocument(run=run, results=results)], at=START)
    return run


def _plan() -> Iterator[Case]:
    for phase, shape in _NUMBERS:
        for model in _MODELS:
            yield make_case(model, phase=phase, shape=shape, mode="eager")
            for mode in _NUMBERS[phase, shape]:
                yield make_case(model, phase=phase, shape=shape, mode=mode)
            for other_phase, other_shape, mode in _WITHOUT_NUMBERS:
                if (phase, shape) == (other_phase, other_shape):
                    yield make_case(model, phase=phase, shape=shape, mode=mode)


def _result(run: Run, case: Case) -> CaseResult:
    result_id = case.key.replace("/", "-")
    ending = _WITHOUT_NUMBERS.get((case.phase, case.shape, case.mode))
    if case.key == INACCURATE.key:
        ending = (Outcome.INACCURATE, "0.5 is more than 0.001")
    if ending is not None:
        outcome, reason = ending
        return make_result(result_id, run=run, case=case, outcome=outcome, reason=reason)
    if case.is_eager:
        latency = make_measurement(samples=_near(EAGER_S))
        memory = make_measurement("peak_bytes", samples=(2e9,))
        return make_result(result_id, run=run, case=case, measurements=[latency, memory])
    speedup, compile_s = _NUMBERS[case.phase, case.shape][case.mode]
    measurements = [
        make_measurement(samples=_near(EAGER_S / speedup)),
        make_measurement("speedup", samples=_near(speedup)),
        make_measurement("compile_cold_s", samples=(compile_s,)),
        make_measurement("compile_warm_s", samples=(compile_s / 10,)),
        make_measurement("peak_bytes", samples=(1e9,)),
    ]
    return make_result(result_id, run=run, case=case, measurements=measurements)


def _near(value: float) -> tuple[float, ...]:
    """Return samples within one per cent of `value`."""
    return (0.99 * value, value, 1.01 * value)
