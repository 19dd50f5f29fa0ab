"""Decide which cases a run executes, and in which order, before anything executes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from typing import TypeVar

from compile_hud.db.records.results import MEASURED_DTYPES, MEASURED_PHASES, Case, Dtype, Phase
from compile_hud.models_zoo.catalog.catalog import find_size, with_provided
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec, Tolerance, Variant, near_names
from compile_hud.models_zoo.catalog.sweeps import sweep_values
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.planning.selection import SHAPES_BY_DEVICE, choose_models, choose_shapes
from compile_hud.runner.planning.suites import Selection, Suite
from compile_hud.runner.protocol.messages import ShapeSweep, Workload

DEVICES = ("cpu", "cuda")

_Named = TypeVar("_Named")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """A case and its workload for the worker."""

    case: Case
    workload: Workload


def make_plan(
    selection: Selection,
    *,
    catalog: Mapping[str, ModelSpec],
    device: str,
    has_references: bool = False,
    variants: Mapping[str, Variant] = VARIANTS,
) -> tuple[PlannedCase, ...]:
    """Return the cases of `selection` on `device`, model by model, eager before compiled.

    A model without a phase has no cases of that phase. With `has_references` the reference cases
    come first; a selection can also name them as models. Raises UnknownNameError for a name without
    a match, and for an empty plan.
    """
    find_names([device], known=DEVICES, kind="device")
    names = {name for part in selection.all for name in part.models}
    references = [name for name in REFERENCES if has_references or name in names]
    planned = [_reference(REFERENCES[name], device=device) for name in references]
    for part in selection.all:
        models = tuple(name for name in part.models if name not in REFERENCES)
        if models:
            chosen = replace(part, models=models)
            planned += _plan_models(chosen, catalog=catalog, device=device, known=variants)
    return tuple({item.case.key: item for item in planned}.values())


def plan_references(device: str) -> tuple[PlannedCase, ...]:
    """Return the reference cases on `device`."""
    return tuple(_reference(spec, device=device) for spec in REFERENCES.values())


def _plan_models(
    selection: Selection,
    *,
    catalog: Mapping[str, ModelSpec],
    device: str,
    known: Mapping[str, Variant],
) -> tuple[PlannedCase, ...]:
    specs = choose_models(selection, catalog=catalog)
    # The variants are in the order of their table, where eager is first. Each model's first number
    # then exists before its first compilation.
    variants = find_names(selection.modes, known=known, kind="mode")
    phases = find_names(selection.phases, known=MEASURED_PHASES, kind="phase")
    dtypes = find_names(selection.dtypes, known=MEASURED_DTYPES, kind="dtype")
    shapes = choose_shapes(specs, selection=selection, device=device)
    planned = tuple(
        plan_case(
            Case(
                model=spec.name,
                family=spec.family,
                phase=Phase(phase),
                shape=shape,
                dtype=Dtype(dtype),
                mode=known[variant].mode,
                variant=variant,
                backend=known[variant].backend,
                device=device,
            ),
            catalog=catalog,
            variants=known,
        )
        for spec in specs
        for shape, dtype, phase, variant in product(shapes[spec.name], dtypes, phases, variants)
        if phase in spec.phases and phase in known[variant].phases
    )
    if not planned:
        raise UnknownNameError(
            _nothing_planned(specs, phases=phases, variants=[known[name] for name in variants]),
            phases=tuple(phases),
            variants=tuple(variants),
        )
    return planned


def _nothing_planned(
    specs: Iterable[ModelSpec], *, phases: Collection[str], variants: Collection[Variant]
) -> str:
    theirs = {phase for variant in variants for phase in variant.phases}
    if theirs.isdisjoint(phases):
        others = " or ".join(sorted(theirs))
        names = ", ".join(variant.name for variant in variants)
        return (
            f"nothing to measure: the phase of {names} is {others},"
            f" not {' or '.join(phases)}. Select it with `--phase`."
        )
    return (
        f"nothing to measure: none of {', '.join(spec.name for spec in specs)}"
        f" has the phase {' or '.join(phases)}. `hud list models` shows the phases of each."
    )


def plan_case(
    case: Case,
    *,
    catalog: Mapping[str, ModelSpec],
    variants: Mapping[str, Variant] = VARIANTS,
) -> PlannedCase:
    """Return `case` with its workload; raise UnknownNameError when the catalog lacks its parts."""
    known = REFERENCES if case.is_reference else with_provided(catalog, names=[case.model])
    find_names([case.model], known=known, kind="model")
    find_names([case.variant], known=variants, kind="mode")
    spec, variant = known[case.model], variants[case.variant]
    size = find_size(spec, case.shape)
    tolerance = spec.tolerance.get(case.dtype, Tolerance()).widened_by(variant.tolerance)
    return PlannedCase(
        case=case,
        workload=Workload(
            build=spec.build,
            config=size.config,
            num_samples=size.num_samples,
            num_tokens=size.num_tokens,
            tolerance=tolerance.set_fields,
            dynamic=variant.dynamic,
            fullgraph=variant.fullgraph,
            transform=variant.transform,
            compile=variant.compile,
            sweep=_sweep(spec, size=size, variant=variant, phase=case.phase),
            summary=spec.summary,
        ),
    )


def _sweep(spec: ModelSpec, *, size: SizeSpec, variant: Variant, phase: Phase) -> ShapeSweep | None:
    # A training step at another shape is two compilations, its forward and its backward.
    if spec.sweep is None or not variant.is_swept or phase is not Phase.INFERENCE:
        return None
    values = sweep_values(spec.sweep, size=size)
    return ShapeSweep(axis=spec.sweep.axis, values=values) if values else None


def _reference(spec: ModelSpec, *, device: str) -> PlannedCase:
    eager = VARIANTS["eager"]
    case = Case(
        model=spec.name,
        family=spec.family,
        phase=Phase.INFERENCE,
        shape=SHAPES_BY_DEVICE[device],
        dtype=Dtype.FP32,
        mode=eager.mode,
        variant=eager.name,
        backend=eager.backend,
        device=device,
    )
    return plan_case(case, catalog=REFERENCES)


def find_suite(name: str, *, suites: Mapping[str, Suite]) -> Suite:
    """Return the suite `name`; raise UnknownNameError if it is missing."""
    return find_named(name, known=suites, kind="suite")


def find_named(name: str, *, known: Mapping[str, _Named], kind: str) -> _Named:
    """Return the entry `name` of `known`; raise UnknownNameError if it is missing."""
    if name not in known:
        raise UnknownNameError(
            _no_such(kind, name, known), kind=kind, name=name, near=near_names(name, known)
        )
    return known[name]


def find_names(patterns: Iterable[str], *, known: Collection[str], kind: str) -> tuple[str, ...]:
    """Return the names of `known` that match any glob of `patterns`, in the order of `known`.

    Raises UnknownNameError for a pattern that matches nothing.
    """
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UnknownNameError(
                _no_such(kind, _unescaped(pattern), known),
                kind=kind,
                name=_unescaped(pattern),
                near=near_names(_unescaped(pattern), known),
            )
    return tuple(name for name in known if any(fnmatchcase(name, item) for item in patterns))


def _unescaped(pattern: str) -> str:
    """Return the name of which `pattern` is the escaped glob."""
    return re.sub(r"\[([*?[])\]", r"\1", pattern)


def _no_such(kind: str, name: str, known: Collection[str]) -> str:
    near = near_names(name, known)
    suggestion = f" Did you mean {near}?" if near else ""
    return f"no {kind} {name!r}.{suggestion} Available: {', '.join(known)}."
