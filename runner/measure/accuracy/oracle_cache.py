"""The eager oracle, computed once a run and toolchain and shared by the variants of a model.

The oracle depends on the model's code, its weights, its inputs, the phase and the dtype, but not on
the variant. The first case that needs it writes it to a file of the run's folder, named after a
digest of these; later cases read it. A model whose weights differ from process to process has
another digest each time and shares nothing.

A missing or damaged file, or one of another subject, is computed again. So is the oracle of a
variant that looks inaccurate: a model may have state that no digest covers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from compile_hud.runner.measure.accuracy.metrics import Distance
from compile_hud.runner.measure.accuracy.outputs import Result
from compile_hud.runner.measure.accuracy.start_state import is_plain
from compile_hud.runner.measure.accuracy.step import Reference, check_result, make_reference
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.subject import Subject

# For more bytes, hashing the weights and copying the results costs memory that a case may lack. It
# would also take as long as computing the results.
MAX_SHARED_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size


def find_reference(context: Context) -> Reference:
    """Return the oracle of the subject, from the run's folder if it exists.

    The detail `oracle` records whether it was `computed` or `shared`.
    """
    request, findings = context.request, context.findings
    findings.details["oracle"] = "computed"
    if not request.oracle_dir or not _is_sharable(context.subject):
        return make_reference(context.subject)
    path = Path(request.oracle_dir, f"{_digest(context)}.pt")
    reference = _read(path, device_kind=context.device.kind)
    if reference is not None:
        findings.details["oracle"] = "shared"
        return reference
    reference = make_reference(context.subject)
    if _num_bytes(_results(reference)) <= MAX_SHARED_BYTES:
        _write(path, reference)
    return reference


def check_against(context: Context, forward: Forward, *, reference: Reference) -> str:
    """Return the reason why the result of `forward` is inaccurate, empty if it is accurate.

    A shared reference alone never decides this: after a failure this process computes its own.
    """
    why_inaccurate = check_result(context, forward, reference=reference)
    if why_inaccurate and context.findings.details["oracle"] == "shared":
        context.findings.details["oracle"] = "computed"
        own = make_reference(context.subject)
        why_inaccurate = check_result(context, forward, reference=own)
    return why_inaccurate


def _digest(context: Context) -> str:
    request, subject = context.request, context.subject
    digest = hashlib.sha256()
    about = {
        "phase": request.case.phase,
        "dtype": request.case.dtype,
        "device": dataclasses.asdict(context.device),
        "build": request.workload.build,
        "checkout": request.workload.checkout and request.workload.checkout.folder,
        "config": request.workload.config,
        "seed": request.settings.seed,
        "tensors": [[name, str(item.dtype), list(item.shape)] for name, item in _state(subject)],
    }
    digest.update(json.dumps(about, sort_keys=True, default=str).encode())
    for _, tensor in _state(subject):
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _is_sharable(subject: Subject) -> bool:
    """Return whether every tensor of `subject` has readable bytes, and not too many."""
    tensors = [tensor for _, tensor in _state(subject)]
    return all(map(is_plain, tensors)) and _num_bytes(tensors) <= MAX_SHARED_BYTES


def _state(subject: Subject) -> Iterator[tuple[str, torch.Tensor]]:
    yield from subject.model.named_parameters()
    yield from subject.model.named_buffers()
    yield from sorted(subject.inputs.items())


def _results(reference: Reference) -> Iterator[torch.Tensor]:
    for result in (reference.oracle, reference.eager):
        yield from result.parts.values()
        yield from result.discrete.values()


def _num_bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _read(path: Path, *, device_kind: str) -> Reference | None:
    """Return the reference in `path`, None if the file is missing or incomplete."""
    try:
        content = memoryview(path.read_bytes())
    except OSError:
        return None
    payload = content[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != content[:_DIGEST_BYTES]:
        return None
    document = torch.load(io.BytesIO(payload), map_location=device_kind, weights_only=True)
    return _from_plain(document)


def _to_plain(reference: Reference) -> dict[str, Any]:
    """Return `reference` as tensors, texts and numbers, so that reading it executes no code."""
    sides = {"oracle": reference.oracle, "eager": reference.eager}
    return {
        **{
            name: {"parts": side.parts, "discrete": side.discrete, "layout": list(side.layout)}
            for name, side in sides.items()
        },
        "spread": {name: dataclasses.asdict(item) for name, item in reference.spread.items()},
        "is_random": reference.is_random,
        "by_eager": list(reference.by_eager),
        "oracle_error": reference.oracle_error,
        "has_own_state": reference.has_own_state,
    }


def _from_plain(document: dict[str, Any]) -> Reference:
    oracle, eager = (
        Result(**{**document[name], "layout": tuple(document[name]["layout"])})
        for name in ("oracle", "eager")
    )
    spread = {name: Distance(**item) for name, item in document["spread"].items()}
    return Reference(
        oracle=oracle,
        eager=eager,
        spread=spread,
        is_random=document["is_random"],
        by_eager=tuple(document["by_eager"]),
        oracle_error=document["oracle_error"],
        has_own_state=document["has_own_state"],
    )


def _write(path: Path, reference: Reference) -> None:
    """Write `reference` to `path`, completely or not at all, and clear its folder."""
    stream = io.BytesIO()
    torch.save(_to_plain(reference), stream)
    payload = stream.getbuffer()
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
        # The variants of a model follow each other: an older file belongs to a finished model.
        for old in path.parent.glob("*.pt"):
            old.unlink(missing_ok=True)
        temporary.replace(path)
    except OSError:
        # The disk is full: the next case computes its own oracle.
        temporary.unlink(missing_ok=True)
