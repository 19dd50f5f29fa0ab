"""Causes planted in small models, and the same models without them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Work = Callable[[Tensor], Tensor]


class Planted(nn.Module):
    """A product of a library, and a cause that fuses with nothing."""

    def __init__(self, cause: Work | None) -> None:
        super().__init__()
        self.layer = nn.Linear(1024, 16)
        self.cause = cause

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        product = self.layer(x)
        return product, product if self.cause is None else self.cause(x)


class Broken(nn.Module):
    """Element-wise work with a break between its halves."""

    def __init__(self, *, is_broken: bool, width: int = 64) -> None:
        super().__init__()
        self.layer, self.is_broken = nn.Linear(width, width), is_broken

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x).sigmoid()
        if self.is_broken:
            torch._dynamo.graph_break()
        return x.tanh() * 2


class Interrupted(nn.Module):
    """Two layers, of which Dynamo may not trace the second one: it runs eagerly."""

    def __init__(self, *, is_interrupted: bool, width: int) -> None:
        super().__init__()
        self.layer, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.is_interrupted = is_interrupted

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x).tanh()
        x = untraced(self.other, x) if self.is_interrupted else self.other(x)
        return x.sigmoid() + 1


@torch.compiler.disable  # type: ignore[untyped-decorator]
def untraced(layer: nn.Module, x: Tensor) -> Tensor:
    product: Tensor = layer(x)
    return product


class Looped(nn.Module):
    """A loop, with a break inside of it: Dynamo compiles nothing of it."""

    def __init__(self, *, is_broken: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.is_broken = is_broken

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
            if self.is_broken:
                torch._dynamo.graph_break()
        return x


class Counted(nn.Module):
    """A layer that counts its calls, up to `most`."""

    def __init__(self, *, most: int) -> None:
        super().__init__()
        self.layer, self.num_calls, self.most = nn.Linear(64, 64), 0, most

    def forward(self, x: Tensor) -> Tensor:
        self.num_calls = min(self.num_calls + 1, self.most)
        product: Tensor = self.layer(x)
        return product + self.num_calls


class Leaking(nn.Module):
    """A layer that appends its outputs to a list."""

    def __init__(self, *, is_leaking: bool) -> None:
        super().__init__()
        self.layer, self.is_leaking = nn.Linear(64, 64), is_leaking
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.layer(x)
        if self.is_leaking:
            self.outputs.append(product)
        return product


class Weights(nn.Module):
    """More weights than work: the optimizer takes the longest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(6)))

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.layers(x)
        return product


class Gated(nn.Module):
    """A layer with parameters and constants, each of which Dynamo checks."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.factor = 1.0 + index

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift * self.factor


class GuardedLayers(nn.Module):
    """Such layers one after the other."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(Gated, range(num_layers)))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Elementary(nn.Module):
    """A function whose generated code is slower than ATen's."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


def ordered(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1).values


def transposed(x: Tensor) -> Tensor:
    return x.t().contiguous()


def converted(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16)


def rotated(x: Tensor) -> Tensor:
    pairs = torch.view_as_complex(torch.unflatten(x, -1, (-1, 2)))
    return torch.view_as_real(pairs * pairs)
