"""The remedies of findings that a measurement can try, as another way to run the same case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.models_zoo.catalog.spec import ModelSpec, Variant
from compile_hud.models_zoo.catalog.tags import has_images
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.errors import RunnerError
from compile_hud.runner.planning.plan import PlannedCase, find_named, plan_case

_ALLOCATOR = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
_UNMASKED, _MASKED = "_unmasked", "_masked"
# Variants with another layout or optimizer, by the variant that they change.
_CHANNELS_LAST = {
    "eager": "eager-channels-last",
    "default": "channels-last",
    "reduce-overhead": "reduce-overhead-channels-last",
    "cuda-graph": "cuda-graph-channels-last",
}
_FUSED_ADAMW = {"eager": "eager-fused-adamw", "default": "fused-adamw"}
_CUDA_GRAPHS = {
    "eager": "cuda-graph",
    "default": "reduce-overhead",
    "max-autotune-no-cudagraphs": "max-autotune",
    "channels-last": "reduce-overhead-channels-last",
}
_AUTOTUNING = {"default": "max-autotune-no-cudagraphs", "reduce-overhead": "max-autotune"}
_DYNAMIC = {"default": "dynamic"}


class RemedyError(RunnerError):
    """No measurement can try the remedy of this finding in this case; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRemedy:
    """The case with the remedy, and its name for sentences."""

    name: str
    planned: PlannedCase


@dataclass(frozen=True, slots=True, kw_only=True)
class _CaseParts:
    case: Case
    catalog: Mapping[str, ModelSpec]
    variants: Mapping[str, Variant]

    def plan(self, case: Case) -> PlannedCase:
        return plan_case(case, catalog=self.catalog, variants=self.variants)


_Make = Callable[[_CaseParts], CaseRemedy]


def make_remedy(
    case: Case,
    code: str,
    *,
    catalog: Mapping[str, ModelSpec],
    variants: Mapping[str, Variant] = VARIANTS,
) -> CaseRemedy:
    """Return the remedy of the finding `code` in `case`.

    Raises RemedyError, and UnknownNameError if the catalog lacks a part of the case.
    """
    make = REMEDIES.get(code)
    if make is None:
        raise RemedyError(
            f"the remedy of {code} is a change of the model or of its surroundings, which no"
            f" measurement can try; the remedies of {', '.join(sorted(REMEDIES))} can be tried",
            code=code,
        )
    return make(_CaseParts(case=case, catalog=catalog, variants=variants))


def _by_variant(names: Mapping[str, str]) -> _Make:
    """Return a maker of the case under the variant that `names` has for its own."""

    def make(subject: _CaseParts) -> CaseRemedy:
        name = names.get(subject.case.variant)
        if name is None:
            raise RemedyError(
                f"no variant changes {subject.case.variant} so; it can be tried from"
                f" {', '.join(names)}",
                variant=subject.case.variant,
            )
        return _under(subject, name)

    return make


def _under(subject: _CaseParts, name: str) -> CaseRemedy:
    variant = find_named(name, known=subject.variants, kind="mode")
    case = subject.case
    if str(case.phase) not in variant.phases:
        raise RemedyError(f"{name} is measured in {' and '.join(variant.phases)}", variant=name)
    if variant.transform.memory_format == "channels_last":
        spec = find_named(case.model, known=subject.catalog, kind="model")
        if has_images(spec) is False:
            raise RemedyError(
                f"{name} is a layout of images, and {case.model} takes none", variant=name
            )
    changed = replace(case, variant=name, mode=variant.mode, backend=variant.backend)
    return CaseRemedy(name=name, planned=subject.plan(changed))


def _with_cuda_graphs(subject: _CaseParts) -> CaseRemedy:
    _check_cuda(subject.case, "CUDA graphs")
    return _by_variant(_CUDA_GRAPHS)(subject)


def _with_tf32(subject: _CaseParts) -> CaseRemedy:
    _check_cuda(subject.case, "TF32")
    if subject.case.dtype is not Dtype.FP32:
        raise RemedyError(f"TF32 computes fp32 products, and this case has {subject.case.dtype}")
    return CaseRemedy(name="tf32", planned=subject.plan(replace(subject.case, dtype=Dtype.TF32)))


def _with_segments(subject: _CaseParts) -> CaseRemedy:
    _check_cuda(subject.case, "CUDA's allocator")
    planned = subject.plan(subject.case)
    settings = planned.workload.compile
    changed = replace(settings, environment={**settings.environment, **_ALLOCATOR})
    workload = replace(planned.workload, compile=changed)
    return CaseRemedy(name="expandable segments", planned=replace(planned, workload=workload))


def _with_mask(subject: _CaseParts) -> CaseRemedy:
    """Return the case with a mask in its inputs: by its size, or the shape `SIZE_masked`."""
    shape = subject.case.shape
    if shape.endswith(_UNMASKED):
        masked = shape.removesuffix(_UNMASKED)
    else:
        masked = f"{shape}{_MASKED}"
        spec = find_named(subject.case.model, known=subject.catalog, kind="model")
        if masked not in spec.shapes:
            raise RemedyError(
                f"{spec.name} has no shape {masked}: its inputs have a mask already, or take none",
                shape=masked,
            )
    return CaseRemedy(name="a mask", planned=subject.plan(replace(subject.case, shape=masked)))


def _in_eager(subject: _CaseParts) -> CaseRemedy:
    if subject.case.is_eager:
        raise RemedyError("this case is eager")
    return _under(subject, "eager")


def _with_fused_adamw(subject: _CaseParts) -> CaseRemedy:
    if subject.case.phase is not Phase.TRAINING:
        raise RemedyError("only training has a step of the optimizer")
    return _by_variant(_FUSED_ADAMW)(subject)


def _check_cuda(case: Case, what: str) -> None:
    if case.device == "cpu":
        raise RemedyError(f"{what} needs a CUDA device, and this case is of a CPU")


# A finding that is missing here has a remedy in the model's code, its data or its surroundings.
REMEDIES: Mapping[str, _Make] = {
    "attention-decomposed": _with_mask,
    "cudagraph-coverage": _with_cuda_graphs,
    "fp32-on-plain-cores": _with_tf32,
    "fragmentation": _with_segments,
    "host-bound": _with_cuda_graphs,
    "layout-copies": _by_variant(_CHANNELS_LAST),
    "low-occupancy": _by_variant(_AUTOTUNING),
    "recompiles": _by_variant(_DYNAMIC),
    "slower-than-eager": _in_eager,
    "tiny-kernels": _with_cuda_graphs,
    "unfused-optimizer": _with_fused_adamw,
}
