"""The repeated blocks of a model: what regional compilation and checkpointing take one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torch import nn

_Kind = tuple[type[nn.Module], tuple[tuple[str, tuple[int, ...]], ...]]


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of every stack of `model`, in their order; empty where it has no stack.

    A stack is a ModuleList or Sequential with at least two children alike: of one class, with
    modules of their own and parameters of the same shapes. Its blocks are its children of that
    class; what lies within a block is not looked at.
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
