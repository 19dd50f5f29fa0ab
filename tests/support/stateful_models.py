"""Models with sparse and nested tensors, gradients of gradients, and state of their own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

ROWS, WIDTH = 12, 16


def rows(number: int = ROWS) -> Tensor:
    """Return the input of most models."""
    return torch.randn(number, WIDTH, generator=torch.Generator().manual_seed(5))


class SingleLayer(nn.Module):
    """One linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


class NeighbourSum(SingleLayer):
    """A sparse matrix of neighbours times a layer."""

    def forward(self, neighbours: Tensor, x: Tensor) -> Tensor:
        return torch.sparse.mm(neighbours, super().forward(x))


def graph_inputs(layout: torch.layout) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    neighbours = (torch.rand(ROWS, ROWS, generator=generator) > 0.7).float()
    return {"neighbours": neighbours.to_sparse(layout=layout), "x": rows()}


class SparseOutput(SingleLayer):
    """The output is sparse."""

    def forward(self, x: Tensor) -> Tensor:
        return (super().forward(x) * (x > 0.5)).to_sparse()


def ragged_inputs() -> dict[str, Tensor]:
    """Return three sequences of other lengths as one nested tensor."""
    parts = [rows(number) for number in (3, 7, 2)]
    return {"x": torch.nested.nested_tensor(parts, layout=torch.jagged)}


class RaggedInside(SingleLayer):
    """The sequences are nested within the model alone."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        nested = torch.nested.nested_tensor_from_jagged(super().forward(x), offsets)
        return torch.nested.to_padded_tensor(nested, 0.0).sum(1)


class GradientPenalty(SingleLayer):
    """A gradient is part of the output: training goes through it once more."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            score = self.linear(point).tanh().sum(-1)
            (slope,) = torch.autograd.grad(score.sum(), point, create_graph=True)
        return score + slope.square().sum(-1)


class OwnGenerator(SingleLayer):
    """Noise from a generator that the module owns."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = torch.Generator().manual_seed(7)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1 * torch.rand(x.shape, generator=self.noise)


class GrowingCache(SingleLayer):
    """Keys of each call are appended to an attribute."""

    keys: Tensor | None = None

    def __init__(self) -> None:
        super().__init__()
        self.keys = None

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        new = y.detach()[:1]
        self.keys = new if self.keys is None else torch.cat([self.keys, new])
        return functional.scaled_dot_product_attention(y, self.keys, self.keys)


class ListCache(SingleLayer):
    """Keys of each call are appended to a list."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.keys.append(y.detach()[:1])
        return y - torch.cat(self.keys).mean(0)


class BufferCache(SingleLayer):
    """A cache of fixed size in buffers, with its position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(32, WIDTH))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.keys.index_copy_(0, self.position % 32, self.stored(y)[:1])
        self.position += 1
        return functional.scaled_dot_product_attention(y, self.keys, self.keys)

    def stored(self, y: Tensor) -> Tensor:
        return y.detach()


class GraphCache(BufferCache):
    """The cache holds the graph of the step that filled it."""

    def stored(self, y: Tensor) -> Tensor:
        return y


class ReplacedBuffer(SingleLayer):
    """Each call replaces a buffer by another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
        return y - self.mean


class CallCounter(SingleLayer):
    """An integer attribute counts the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) / self.calls


class LazyAttribute(SingleLayer):
    """The first call makes an attribute."""

    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "first"):
            self.first = 0.0
        self.first += 1.0
        return super().forward(x) + self.first
