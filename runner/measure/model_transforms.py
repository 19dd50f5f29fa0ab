"""Transforms of a model before it is compiled, applied to a copy of the eager model.

Eager is the reference of every variant, in speed and in accuracy. A transform therefore works on a
copy of the subject's modules, and of tensors and optimizer only if it changes those.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from compile_hud.models_zoo.catalog.spec import NO_TRANSFORM, ModelTransform
from compile_hud.runner.measure.quantization import not_quantizable_reason, quantize
from compile_hud.runner.measure.subject import Subject, optimizer_of

_IMAGE_DIMENSIONS = 4
NO_BLOCKS = (
    "this model has no repeated blocks at this size (no two children of a ModuleList or Sequential"
    " are alike): measure it under default, or a larger size of it"
)
_Kind = tuple[type[nn.Module], tuple[tuple[str, tuple[int, ...]], ...]]


class TransformError(RuntimeError):
    """This model cannot be transformed here; the message has the reason and the remedy."""


def apply_transform(subject: Subject, *, transform: ModelTransform) -> Subject | None:
    """Return the transformed copy of `subject`, None without a transform.

    Raises TransformError if the transform has nothing to act on, UnavailableModelError if its
    package is missing.
    """
    if transform == NO_TRANSFORM:
        return None
    if transform.memory_format == "channels_last":
        transformed = _in_channels_last(subject)
    else:
        transformed = _twin(subject)
    if transform.weights:
        if why := not_quantizable_reason(transformed, weights=transform.weights):
            raise TransformError(why)
        quantize(transformed, weights=transform.weights)
    if transform.is_regional or transform.is_checkpointed or transform.has_nested_regions:
        blocks = repeated_blocks(transformed.model)
        if not blocks:
            raise TransformError(NO_BLOCKS)
        if transform.is_checkpointed:
            _checkpoint(blocks)
        if transform.has_nested_regions:
            _nest(blocks)
    if transform.has_fused_optimizer:
        transformed.optimizer = optimizer_of(
            transformed.model, phase=transformed.phase, is_fused=True
        )
    return transformed


def _twin(subject: Subject) -> Subject:
    """Return a subject with its own modules, and the tensors and the optimizer of `subject`."""
    model = subject.model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return dataclasses.replace(subject, model=copy.deepcopy(model, shared), compiles_itself=False)


def _checkpoint(blocks: Iterable[torch.nn.Module]) -> None:
    for block in blocks:
        # Dynamo traces only non-reentrant checkpoints.
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def _nest(blocks: Iterable[torch.nn.Module]) -> None:
    for block in blocks:
        block.forward = torch.compiler.nested_compile_region(block.forward)


def _in_channels_last(subject: Subject) -> Subject:
    images = {
        name: tensor.contiguous(memory_format=torch.channels_last)
        for name, tensor in subject.inputs.items()
        if tensor.dim() == _IMAGE_DIMENSIONS and tensor.is_floating_point()
    }
    if not images:
        raise TransformError(
            "channels_last is a layout of images and this model has no input of four dimensions:"
            " measure it under default"
        )
    model = copy.deepcopy(subject.model)
    # A module's `to` returns itself; weights of other dimensions stay as they are.
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    transformed = dataclasses.replace(
        subject,
        model=model,
        inputs={**subject.inputs, **images},
        optimizer=optimizer_of(model, phase=subject.phase),
        scaler=copy.deepcopy(subject.scaler),
        compiles_itself=False,
    )
    if subject.start is not None:
        transformed.remember_start(seed=subject.start.seed)
    return transformed


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of every stack of `model`, in order; empty without a stack.

    A stack is a ModuleList or Sequential with at least two similar children: of one class, with
    modules of their own and parameters of the same shapes. Its blocks are its children of that
    class. A block is not searched for further stacks.
    """
    return list(_blocks(model))


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    repeated = _repeated_classes(module)
    for child in module.children():
        if type(child) in repeated:
            yield child
        else:
            yield from _blocks(child)


def _repeated_classes(module: nn.Module) -> set[type[nn.Module]]:
    if not isinstance(module, nn.ModuleList | nn.Sequential):
        return set()
    kinds = Counter(_kind(child) for child in module.children() if any(child.children()))
    return {block_class for (block_class, shapes), count in kinds.items() if shapes and count > 1}


def _kind(block: nn.Module) -> _Kind:
    shapes = tuple((name, tuple(item.shape)) for name, item in block.named_parameters())
    return type(block), shapes
