"""The step `shapes`: other shapes through the model that is already compiled.

Each value of the workload's axis goes through the compiled model once, in ascending order. A
recompile in its first call is counted with its guard and its time. Its result is compared with the
fp64 oracle of the same shape: code that was specialised for another shape may be wrong without an
error. Then eager and variant are timed in turn at every shape.

The step is the last one of its launch and compiles into its own folder. It affects no number of the
case's own shape, and no cache of a later launch.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from compile_hud.db.shared.text import counted_of
from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.runner.measure.accuracy.step import check_other_shape, make_reference
from compile_hud.runner.measure.compile.dynamo import CompileCounts, forget_counts, read_counts
from compile_hud.runner.measure.compile.source_locations import failure_reason
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.latency.timing import (
    CALIBRATION_TRIES,
    Side,
    calibrate,
    clock_name,
    headline,
    quiet_interpreter,
)
from compile_hud.runner.measure.resources.memory import storage_bytes
from compile_hud.runner.protocol.messages import ShapeSweep

NUM_ROUNDS = 9
# A long iteration gets fewer samples; with three, one accident does not decide the median.
MIN_ROUNDS = 3
BUDGET_S = 0.5
# A shape is skipped if it might leave the later launches less than half of the case's time.
TIME_SHARE = 0.5
SLOWER_COMPILE = 1.5
_CACHE_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
# Errors of a model or the compiler for a shape that it does not support, or that does not fit.
_SHAPE_ERRORS = (RuntimeError, MemoryError, ValueError, IndexError, AssertionError)


class ShapeError(RuntimeError):
    """A shape could not be measured; the message names it and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The first calls at one value of the axis, and the sides that are timed there.

    `reason` is why the result is inaccurate, empty if it is accurate.
    """

    value: int
    eager: Side
    variant: Side
    counts: CompileCounts
    eager_call_s: float
    first_call_s: float
    later_call_s: float
    reason: str
    accuracy: dict[str, Any]

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.eager, self.variant

    @property
    def timing_s(self) -> float:
        """Return the expected wall seconds of the fewest samples of both sides."""
        return (CALIBRATION_TRIES + MIN_ROUNDS) * (self.eager_call_s + self.later_call_s)

    @property
    def compile_s(self) -> float | None:
        """Return the time of the first call beyond the next one, None without a recompile."""
        if self.counts.num_recompiles == 0:
            return None
        return max(0.0, self.first_call_s - self.later_call_s)


def is_swept(context: Context) -> bool:
    """Return whether this launch ends with the step `shapes`."""
    request = context.request
    return (
        context.is_first
        and request.settings.sweep
        and request.workload.sweep is not None
        # A model in eager mode has no compiled shapes.
        and context.findings.effective_mode != "eager"
    )


def sweep_shapes(context: Context, forward: Forward) -> str:
    """Return the shapes at which the compiled model is inaccurate, empty for none; record the rest.

    If a shape fails, or the time is short, the details have the reason and there are no metrics.
    """
    sweep = context.request.workload.sweep
    assert sweep is not None
    with _own_cache(context.request.cache_dir):
        visits, missing = _visit_all(context, forward, sweep=sweep)
        forget_counts()
        untimed = _take_samples(context, visits)
        num_late = read_counts().num_recompiles
    missing = missing or untimed
    sides = [side for visit in visits for side in visit.sides]
    details = {
        "axis": sweep.axis,
        "own": context.request.workload.config[sweep.axis],
        "clock": clock_name(sides),
        "rows": [] if untimed else [_row(visit) for visit in visits],
    }
    context.findings.details["shapes"] = details
    if missing:
        details["missing"] = missing
        _warn_of_missing(context, missing)
    else:
        _report(context, visits, num_late=num_late)
    _warn_of_recompiles(context, visits)
    return "; ".join(
        f"at {sweep.axis} {item.value} {item.reason}" for item in visits if item.reason
    )


def _visit_all(context: Context, forward: Forward, *, sweep: ShapeSweep) -> tuple[list[Visit], str]:
    """Return the visits, and the reason if there are not all of them, else empty."""
    visits: list[Visit] = []
    bounds_s = context.log.bounds_s("compile")
    longest_s = 0.0 if bounds_s is None else bounds_s[1] - bounds_s[0]
    timeout_s = context.request.settings.timeout_s
    for value in sweep.values:
        # The next shape's samples take as long as those of the slowest before it.
        timing_s = [item.timing_s for item in visits]
        ahead_s = SLOWER_COMPILE * longest_s + sum(timing_s) + max(timing_s, default=0.0)
        if context.log.elapsed_s() + ahead_s > TIME_SHARE * timeout_s:
            return visits, (
                f"no {sweep.axis} from {value} on was tried: half of the case's {timeout_s:g} s is"
                " for its other launches"
            )
        try:
            visits.append(visit(context, forward, axis=sweep.axis, value=value))
        except ShapeError as error:
            return visits, str(error)
        longest_s = max(longest_s, visits[-1].first_call_s)
    return visits, ""


def visit(context: Context, forward: Forward, *, axis: str, value: int) -> Visit:
    """Measure the first calls of one shape in eager and in `forward`; raise ShapeError."""
    subject, device = context.variant, context.device
    who = "making inputs"
    try:
        shaped = replace(subject, inputs=_inputs(context, config={axis: value}))
        shaped.remember_start(seed=context.request.settings.seed)
        eager = shaped.step(shaped.model)
        variant = replace(context, subject=shaped, transformed=None).step(forward)
        who = "eager"
        # The libraries behind the operators prepare for a shape too, and that is no compilation.
        eager_call_s = device.time_call(eager)
        who = "the variant"
        forget_counts()
        first_call_s, later_call_s = (device.time_call(variant) for _ in range(2))
        result = shaped.result(forward)
        counts = read_counts()
        who = "the fp64 oracle"
        reference = make_reference(shaped)
    except _SHAPE_ERRORS as error:
        raise ShapeError(f"at {axis} {value} {who} failed with {failure_reason(error)}") from error
    reason, accuracy = check_other_shape(context, result, reference=reference)
    if reason and reference.is_random:
        # The last step checks the shape of the case with the same random numbers.
        reason, accuracy = "", {"not_checked": "its random numbers are others than eager's"}
    return Visit(
        value=value,
        eager=Side(name="eager", step=eager),
        variant=Side(name="variant", step=variant),
        counts=counts,
        eager_call_s=eager_call_s,
        first_call_s=first_call_s,
        later_call_s=later_call_s,
        reason=reason,
        accuracy=accuracy,
    )


def _inputs(context: Context, *, config: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Return the inputs with `config` in the case's configuration, of the dtypes of its own."""
    workload = context.request.workload
    builder = load_builder(workload.build)
    made = builder.example_inputs({**workload.config, **config}, seed=context.request.settings.seed)
    own = context.variant.inputs
    return {
        name: tensor.to(device=own[name].device, dtype=own[name].dtype)
        for name, tensor in made.items()
    }


def _take_samples(context: Context, visits: Sequence[Visit]) -> str:
    """Sample each side of each visit; return the error that prevented it, else empty."""
    try:
        if visits:
            _take_rounds(context, visits)
    except _SHAPE_ERRORS as error:
        return f"timing the shapes failed with {failure_reason(error)}"
    return ""


def _take_rounds(context: Context, visits: Sequence[Visit]) -> None:
    """Append up to NUM_ROUNDS samples to each side, within BUDGET_S if possible."""
    num_bytes = storage_bytes(context.variant.alive())
    with (
        context.device.pinned(),
        context.device.flushing(working_set_bytes=num_bytes) as timer,
        quiet_interpreter(),
    ):
        for visit in visits:
            for side in visit.sides:
                calibrate(side, device=timer)
        deadline_s = time.perf_counter() + BUDGET_S
        for number in range(NUM_ROUNDS):
            if number >= MIN_ROUNDS and time.perf_counter() > deadline_s:
                break
            for visit in visits:
                for side in visit.sides if number % 2 == 0 else visit.sides[::-1]:
                    side.samples.append(side.time(timer))


def _row(visit: Visit) -> dict[str, Any]:
    times = {side.name: [item.least_noisy_s for item in side.samples] for side in visit.sides}
    return {
        "value": visit.value,
        "eager_s": times["eager"],
        "variant_s": times["variant"],
        "first_call_s": visit.first_call_s,
        "compile_s": visit.compile_s,
        "num_recompiles": visit.counts.num_recompiles,
        "recompiles": [dataclasses.asdict(location) for location in visit.counts.recompiles],
        "has_given_up": bool(visit.counts.at_limit),
        "reason": visit.reason,
        "accuracy": visit.accuracy,
    }


def _report(context: Context, visits: Sequence[Visit], *, num_late: int) -> None:
    sweep = context.request.workload.sweep
    assert sweep is not None
    shapes = f"{sweep.axis} {', '.join(str(visit.value) for visit in visits)}"
    num_recompiles = num_late + sum(visit.counts.num_recompiles for visit in visits)
    context.findings.add(
        "sweep_recompiles",
        (float(num_recompiles),),
        method=f"Dynamo's counters over the calls with {shapes}",
    )
    speedups = [headline(visit.sides) for visit in visits]
    context.findings.add(
        "sweep_speedup",
        [statistics.geometric_mean(row) for row in zip(*speedups, strict=True)],
        method=f"eager over variant, geometric mean over {shapes}, round by round",
    )


def _warn_of_missing(context: Context, missing: str) -> None:
    context.findings.warn(
        "no-shapes",
        missing,
        hint="the numbers of the case's own shape are valid",
    )


def _warn_of_recompiles(context: Context, visits: Sequence[Visit]) -> None:
    """Warn of unexpected recompiles.

    A model compiled as dynamic needs none. For any other model the first new shape is expected to
    recompile, since torch then learns that the dimension changes.
    """
    workload = context.request.workload
    assert workload.sweep is not None
    again = [visit for visit in visits if visit.counts.num_recompiles]
    if len(again) <= (0 if workload.dynamic else 1):
        return
    location = again[-1].counts.recompiles[-1]
    values = ", ".join(str(visit.value) for visit in again)
    context.findings.warn(
        "shape-recompiles",
        f"compiled again: {counted_of(len(again), len(visits), 'shape')} ({workload.sweep.axis}"
        f" {values}), the last for `{location.reason}`",
        hint="something in the model depends on the size: the guards of each shape are on the page"
        " of the case",
    )


@contextmanager
def _own_cache(cache_dir: str) -> Iterator[None]:
    """Compile into a folder next to `cache_dir` during the block.

    The cache of later launches is unaffected.
    """
    if not cache_dir:
        yield
        return
    before = {name: os.environ.pop(name, None) for name in _CACHE_FOLDERS}
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{cache_dir}-of-shapes"
    try:
        yield
    finally:
        for name, folder in before.items():
            os.environ.pop(name, None)
            if folder is not None:
                os.environ[name] = folder
