"""Small models with the causes of public issues; each factory returns a module and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_Subject = tuple[nn.Module, dict[str, Tensor]]


class _Applied(nn.Module):
    """A linear layer, and a function of its output."""

    def __init__(self, function: Callable[[Tensor], Tensor], *, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


class _ComplexRotation(nn.Module):
    """Positions that rotate pairs of channels, as complex numbers."""

    rotation: Tensor

    def __init__(self, *, length: int, width: int) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(length), 1e4 ** -torch.linspace(0, 1, width // 2))
        self.register_buffer("rotation", torch.polar(torch.ones_like(angles), angles))
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(self.layer(x).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.rotation).flatten(-2)


class _CallCounter(nn.Module):
    """A layer that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.num_calls = 0
        self.layer = nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        self.num_calls += 1
        active: Tensor = self.layer(x).relu()
        return active * (1 + 1 / self.num_calls)


class _BooleanMask(nn.Module):
    """A layer that works on the rows that a mask selects."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        scaled = torch.tanh(self.layer(x))
        chosen = scaled[scaled[:, 0] > 0]
        return scaled + torch.sigmoid(chosen).sum(0)


class _RoutedExperts(nn.Module):
    """Experts that each take as many tokens as a router sends them."""

    def __init__(self, *, num_experts: int, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, num_experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(num_experts))

    def forward(self, x: Tensor) -> Tensor:
        expert = self.router(x).argmax(-1)
        counts = torch.bincount(expert, minlength=len(self.experts)).tolist()
        parts = torch.split(x[expert.argsort()], counts)
        return torch.cat([run(part) for run, part in zip(self.experts, parts, strict=True)])


class _SkippedLayer(nn.Module):
    """A layer of a library that forbids Dynamo to trace it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.layer(x)
        return product


class _SkippedBlock(nn.Module):
    """A block with such a layer, which makes two graphs of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(width), _SkippedLayer(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.gelu(self.layer(self.norm(x)))


class _CumulativeProduct(nn.Module):
    """Products along a dimension, whose gradient has an algorithm of quadratic time."""

    def __init__(self, *, length: int, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(length, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cumprod(x * self.scale, dim=1)


class _ManyWeights(nn.Module):
    """More weights than work: the optimizer takes the longest."""

    def __init__(self, *, num_layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(num_layers)))

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.layers(x)
        return product


class _Gated(nn.Module):
    """A layer with several parameters and constants, each of which Dynamo checks."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.index, self.factor, self.is_last = index, 1.0 + index, False

    def forward(self, x: Tensor) -> Tensor:
        return x if self.is_last else x * self.scale + self.shift * self.factor


def _running_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, dim=-1).relu()


def complex_rotation(_config: Mapping[str, Any]) -> _Subject:
    return _ComplexRotation(length=512, width=128), {"x": torch.randn(8, 512, 128)}


def call_counter(_config: Mapping[str, Any]) -> _Subject:
    return _CallCounter(), {"x": torch.randn(64, 256)}


def boolean_mask(_config: Mapping[str, Any]) -> _Subject:
    return _BooleanMask(), {"x": torch.randn(512, 64)}


def routed_experts(_config: Mapping[str, Any]) -> _Subject:
    return _RoutedExperts(num_experts=8, width=128), {"x": torch.randn(256, 128)}


def skipped_layers(_config: Mapping[str, Any]) -> _Subject:
    return nn.Sequential(*(_SkippedBlock(64) for _ in range(12))), {"input": torch.randn(64, 64)}


def cumulative_product(_config: Mapping[str, Any]) -> _Subject:
    return _CumulativeProduct(length=32, width=500), {"x": 0.5 + torch.rand(8, 32, 500)}


def elementary_function(_config: Mapping[str, Any]) -> _Subject:
    return nn.Tanh(), {"input": torch.randn(1024, 1024)}


def cumulative_sum(_config: Mapping[str, Any]) -> _Subject:
    return _Applied(_running_sum, width=512), {"x": torch.randn(512, 512)}


def many_weights(_config: Mapping[str, Any]) -> _Subject:
    return _ManyWeights(num_layers=24, width=384), {"x": torch.randn(4, 384)}


def many_guards(_config: Mapping[str, Any]) -> _Subject:
    return nn.Sequential(*(_Gated(index) for index in range(100))), {"input": torch.randn(2, 16)}
