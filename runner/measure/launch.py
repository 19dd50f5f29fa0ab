"""One launch of a case, from building the model to the report.

The first launch does everything; later ones compile again from the filled cache and take more
samples, since fresh processes differ from each other more than samples within one
(docs/explanation/measurement.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from compile_hud.db.records.results import SAME_CODE_AS, Dtype, Outcome, Phase
from compile_hud.models_zoo.catalog.errors import UnavailableModelError
from compile_hud.runner.measure.accuracy.aligned import check_aligned
from compile_hud.runner.measure.accuracy.oracle_cache import check_against, find_reference
from compile_hud.runner.measure.accuracy.step import Reference
from compile_hud.runner.measure.compile.captured_graphs import captured_case
from compile_hud.runner.measure.compile.code_signature import same_code_as
from compile_hud.runner.measure.compile.compiler import (
    is_by_dynamo,
    is_uncompiled,
    script_arguments,
    unavailable_reason,
)
from compile_hud.runner.measure.compile.dynamo import recorded_compiles
from compile_hud.runner.measure.compile.own_settings import applied_inductor_config
from compile_hud.runner.measure.compile.source_locations import failure_reason
from compile_hud.runner.measure.compile.step import compile_subject, report_counts
from compile_hud.runner.measure.context import Context, Findings, Forward
from compile_hud.runner.measure.device import allow_tf32, open_device
from compile_hud.runner.measure.environment_facts import loaded_folders
from compile_hud.runner.measure.kernels.library_calls import recorded_library_calls
from compile_hud.runner.measure.kernels.profile_step import report_kernels
from compile_hud.runner.measure.kernels.profiler_ranges import named_range
from compile_hud.runner.measure.kernels.provenance import recorded_origins
from compile_hud.runner.measure.kernels.replacements import (
    recorded_vectors,
    transplanted_kernels,
)
from compile_hud.runner.measure.kernels.transplant_checks import (
    check_transplants,
    report_transplants,
)
from compile_hud.runner.measure.latency.sampling import sample
from compile_hud.runner.measure.latency.token_latency import has_tokens, report_tokens
from compile_hud.runner.measure.model_transforms import TransformError, apply_transform
from compile_hud.runner.measure.own_compilation import turn_own_compilation_off
from compile_hud.runner.measure.quantization import report_quantized
from compile_hud.runner.measure.resources.counters_step import report_counters
from compile_hud.runner.measure.resources.energy import report_energy
from compile_hud.runner.measure.resources.flops import report_work
from compile_hud.runner.measure.resources.memory import report_memory
from compile_hud.runner.measure.resources.memory_growth import report_growth
from compile_hud.runner.measure.resources.memory_holders import is_explained, report_holders
from compile_hud.runner.measure.resources.training_breakdown import report_breakdown
from compile_hud.runner.measure.runtimes.registry import allocates_itself, check_runtime
from compile_hud.runner.measure.shape_sweep import is_swept, sweep_shapes
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import build_subject
from compile_hud.runner.measure.turns import locked_autotuning, locked_device, wait_for_turn
from compile_hud.runner.protocol.graphs import CapturedCase
from compile_hud.runner.protocol.messages import (
    PROGRAM_SUFFIX,
    STEP_SUFFIX,
    LaunchReport,
    LaunchRequest,
    program,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchEnding:
    """The outcome of the steps; the reason is empty for a success."""

    outcome: Outcome = Outcome.OK
    reason: str = ""


def run_launch(request: LaunchRequest) -> LaunchReport:
    """Return the report of this launch; raise any error of the model or the compiler."""
    log, findings = StepLog(on_begin=partial(_write_step, request)), Findings()
    with log.step("fingerprint"):
        device = open_device(request.case.device, num_threads=request.settings.num_threads)
        missing_mode = unavailable_reason(request.case, device=device)
        reason = device.unsupported_reason(request.case.dtype, phase=request.case.phase)
    log.range_of = partial(named_range, device=device)
    if missing_mode is not None:
        return LaunchReport(outcome=Outcome.UNAVAILABLE, reason=missing_mode)
    if reason is not None:
        return LaunchReport(outcome=Outcome.SKIPPED, reason=reason)
    if request.case.dtype is Dtype.TF32:
        allow_tf32()
    torch.manual_seed(request.settings.seed)
    try:
        with log.step("build"):
            check_runtime(request.case, device=device)
            subject = build_subject(request, device=device)
            transformed = apply_transform(subject, transform=request.workload.transform)
    except (UnavailableModelError, TransformError) as error:
        return LaunchReport(outcome=Outcome.SKIPPED, reason=str(error))
    context = Context(
        request=request,
        subject=subject,
        transformed=transformed,
        device=device,
        log=log,
        findings=findings,
    )
    if request.workload.transform.weights:
        report_quantized(context)
    with (
        recorded_compiles(context.compiles, context.caches),
        _origins(context),
        locked_autotuning(request.settings.device_lock),
        applied_inductor_config(request.workload.compile),
        transplanted_kernels(
            request.workload.transplants, context.replacements, keeps_own=context.is_first
        ),
    ):
        versions = _input_versions(context)
        ending = _measure(context)
        _warn_of_changed_inputs(context, before=versions)
    findings.details["steps"] = log.entries
    if request.settings.loaded:
        findings.details["loaded"] = loaded_folders()
    return LaunchReport(
        outcome=ending.outcome,
        reason=ending.reason,
        effective_mode=findings.effective_mode,
        metrics=findings.metrics if ending.outcome is Outcome.OK else {},
        warnings=tuple(findings.warnings),
        details=findings.details,
    )


def graphs_of(request: LaunchRequest) -> CapturedCase:
    """Return the graphs of the case of `request`, for a script that needs torch alone.

    Raises NoScriptError, and any error of the model.
    """
    case = request.case
    device = open_device(case.device, num_threads=request.settings.num_threads)
    torch.manual_seed(request.settings.seed)
    subject = build_subject(request, device=device)
    subject = apply_transform(subject, transform=request.workload.transform) or subject
    return captured_case(
        subject,
        case=case,
        options=None if is_uncompiled(case) else script_arguments(case, request.workload),
        settings=request.workload.compile,
    )


def _write_step(request: LaunchRequest, name: str) -> None:
    """Leave the name of the running step for the report of a launch that is ended from outside."""
    _leave(request, name, suffix=STEP_SUFFIX)


def _leave(request: LaunchRequest, text: str, *, suffix: str) -> None:
    """Write `text` next to the report, for the runner."""
    if request.report_path:
        # On a full disk the launch goes on: the report is what counts.
        with contextlib.suppress(OSError):
            Path(request.report_path).with_suffix(suffix).write_text(text, encoding="ascii")


def _input_versions(context: Context) -> dict[str, int]:
    """Return autograd's count of writes to each input, eager and variant together."""
    versions = {name: _version(tensor) for name, tensor in context.subject.inputs.items()}
    for name, tensor in context.variant.inputs.items():
        if tensor is not context.subject.inputs[name]:
            versions[name] += _version(tensor)
    return versions


def _version(tensor: torch.Tensor) -> int:
    # Tensors made in inference mode have no version counter.
    return 0 if tensor.is_inference() else tensor._version


def _warn_of_changed_inputs(context: Context, *, before: Mapping[str, int]) -> None:
    after = _input_versions(context)
    changed = [name for name in after if after[name] != before[name]]
    if changed:
        context.findings.warn(
            "inputs-changed",
            f"the model writes to its inputs ({', '.join(changed)}): each iteration reads what the"
            " one before left",
            hint="clone them in forward, or write to a buffer of the model",
        )


def _measure(context: Context) -> _LaunchEnding:
    """Execute the steps in order until one of them ends the launch."""
    log = context.log
    reference = _find_reference(context)
    forward: Forward = context.subject.model
    if is_uncompiled(context.request.case):
        forward = context.variant.model
        context.findings.effective_mode = "eager"
    else:
        with log.step("compile"):
            forward = compile_subject(context)
            report_transplants(context)
        if (ending := _ending_after_compile(context)) is not None:
            return ending
    why_inaccurate = ""
    if reference is not None:
        with log.step("accuracy"):
            why_inaccurate = check_against(context, forward, reference=reference)
            why_inaccurate = why_inaccurate or check_transplants(context, forward)
        # Another draw of random numbers is no error yet.
        if why_inaccurate and (context.is_eager or not reference.is_random):
            return _inaccurate(why_inaccurate)
        del reference
    if (ending := _sample_in_turn(context, forward)) is not None:
        return ending
    with log.step("result"):
        if is_by_dynamo(context.request.case):
            report_counts(context, forward)
    if is_swept(context):
        with log.step("shapes"):
            if reason := sweep_shapes(context, forward):
                return _inaccurate(reason)
    if why_inaccurate:
        with log.step("aligned accuracy"):
            return _inaccurate(check_aligned(context))
    return _LaunchEnding()


def _ending_after_compile(context: Context) -> _LaunchEnding | None:
    """Return the ending of a launch that needs no more than the compilation, else None."""
    if context.request.compile_trace_dir:
        return _LaunchEnding()
    if variant := same_code_as(context):
        return _LaunchEnding(outcome=Outcome.SAME_CODE, reason=f"{SAME_CODE_AS}{variant}")
    return None


def _find_reference(context: Context) -> Reference | None:
    """Return the reference of the first launch, None in later ones."""
    if not context.is_first:
        _turn_own_compilation_off(context)
        return None
    lock = context.request.settings.device_lock
    with context.log.step("eager oracle"), locked_device(lock):
        _turn_own_compilation_off(context)
        reference = find_reference(context)
        if lock:
            context.device.give_back()
    return reference


def _turn_own_compilation_off(context: Context) -> None:
    line = turn_own_compilation_off(context.subject)
    if line and context.is_first:
        context.findings.warn(
            "eager-compiles",
            f"the model's own code calls torch.compile ({line}): eager is measured without it",
            hint="take the call out of the model, so that each variant alone decides",
        )


def _sample_in_turn(context: Context, forward: Forward) -> _LaunchEnding | None:
    """Execute the steps that need the device alone; return the ending if the turn is the end."""
    if (ending := _take_turn(context)) is not None:
        return ending
    sample(context, forward)
    if context.is_first:
        _measure_once(context, forward)
    return None


def _take_turn(context: Context) -> _LaunchEnding | None:
    """Wait for the turn of the launch; return its ending if its program is measured already."""
    request, findings = context.request, context.findings
    if not request.settings.turn_pipe:
        return None
    sha256 = findings.details.get("generated_code_sha256")
    if context.is_first and isinstance(sha256, str):
        name = program(sha256, effective_mode=findings.effective_mode)
        _leave(request, name, suffix=PROGRAM_SUFFIX)
    with context.log.step("turn"):
        context.device.give_back()
        turn = wait_for_turn(request.settings.turn_pipe)
    findings.num_neighbours = turn.num_neighbours
    if turn.same_code_as:
        reason = f"{SAME_CODE_AS}{turn.same_code_as}"
        return _LaunchEnding(outcome=Outcome.SAME_CODE, reason=reason)
    return None


def _inaccurate(reason: str) -> _LaunchEnding:
    """Return the ending of an inaccurate launch; an empty `reason` is a success."""
    return _LaunchEnding(outcome=Outcome.INACCURATE, reason=reason) if reason else _LaunchEnding()


def _measure_once(context: Context, forward: Forward) -> None:
    """Execute the steps between the samples and the result, which only the first launch has."""
    log = context.log
    with log.step("memory"):
        report_memory(context, forward)
        if not allocates_itself(context.request.case):
            report_growth(context, forward)
    if is_explained(context):
        with log.step("allocations"):
            _explain_failure(context, forward, name="allocations", report=report_holders)
    explaining: dict[str, Callable[[Context, Forward], None]] = {}
    if context.request.settings.energy:
        explaining["energy"] = report_energy
    if context.request.case.phase is Phase.TRAINING:
        explaining["breakdown"] = report_breakdown
    if has_tokens(context):
        explaining["tokens"] = report_tokens
    explaining["counters"] = report_counters
    for name, report in explaining.items():
        with log.step(name):
            _explain_failure(context, forward, name=name, report=report)
    with log.step("work"):
        report_work(context)
    if context.request.trace_path or context.request.is_watched:
        with log.step("kernels"):
            _explain_failure(context, forward, name="kernels", report=report_kernels)


@contextmanager
def _origins(context: Context) -> Iterator[None]:
    """Record the origins of kernels and calls of libraries while they are compiled."""
    if not context.request.trace_path or context.request.case.backend != "inductor":
        yield
        return
    with (
        recorded_origins(context.origins),
        recorded_vectors(context.vector_isas),
        recorded_library_calls(context.library_calls, lines=context.call_lines),
    ):
        yield


def _explain_failure(
    context: Context, forward: Forward, *, name: str, report: Callable[[Context, Forward], None]
) -> None:
    """Execute a step that only explains: after its failure earlier measurements stay."""
    try:
        report(context, forward)
    except (RuntimeError, OSError) as error:
        context.findings.warn(
            f"no-{name}",
            f"the step {name} failed: {failure_reason(error)}",
            hint="the other numbers of this result are valid",
        )
