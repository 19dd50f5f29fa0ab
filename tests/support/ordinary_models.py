"""Models as people write them, each with a habit that a comparison of two runs must survive."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS, WIDTH = 24, 48


class Dropping(nn.Module):
    """A classifier with ordinary dropout."""

    def __init__(self, p: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, 96), nn.GELU(), nn.Dropout(p), nn.Linear(96, 12), nn.Dropout(p)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Noisy(nn.Module):
    """Random augmentation inside forward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x + 0.3 * torch.randn_like(x)).relu()  # type: ignore[no-any-return]


class PythonRandom(nn.Module):
    """A scale from Python's generator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * (1 + random.random())  # type: ignore[no-any-return]


class Normalised(nn.Module):
    """Batch norm, whose running mean changes in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.layer(x))  # type: ignore[no-any-return]


class Counting(nn.Module):
    """A buffer that each call updates and reads."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("calls", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) * self.calls  # type: ignore[no-any-return]


class Writing(nn.Module):
    """A step of a decoder that writes to the cache it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, token: Tensor, cache: Tensor) -> Tensor:
        new = self.layer(token)
        cache[:, -1] = new
        cache.mul_(1.03)
        return (cache * new.unsqueeze(1)).sum(-1)


class Banning(nn.Module):
    """Logits with forbidden tokens at `value`, and rows that are not a number."""

    banned: Tensor

    def __init__(self, value: float = -math.inf) -> None:
        super().__init__()
        self.layer, self.value = nn.Linear(WIDTH, 60), value
        self.register_buffer("banned", torch.arange(60) % 5 == 0)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.layer(x).masked_fill(self.banned, self.value)
        return torch.cat([logits, logits[:1] * math.nan])


class LowestOfDtype(Banning):
    """Logits with forbidden tokens at the lowest number of their dtype."""

    def forward(self, x: Tensor) -> Tensor:
        logits = self.layer(x)
        return logits.masked_fill(self.banned, torch.finfo(logits.dtype).min)


class MaskedRow(nn.Module):
    """Attention with a row that may look at nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query = self.query(x)
        return (query @ query.mT).masked_fill(~mask, -math.inf).softmax(-1)


def gated(x: Tensor, y: Tensor) -> Tensor:
    """Return a gated activation, which its author compiles."""
    return F.gelu(x) * torch.tanh(y)


class CompiledByItsAuthor(nn.Module):
    """Part of the model is compiled by its author."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(WIDTH, 96), nn.Linear(WIDTH, 96)
        self.activation = torch.compile(gated)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.gate(x), self.up(x))


class Hoarding(nn.Module):
    """A list of everything that it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.history: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.history.append(y.detach().clone())
        return y  # type: ignore[no-any-return]


_GLOBAL: list[Tensor] = []


class HoardingElsewhere(Hoarding):
    """The list is not the module's."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        _GLOBAL.append(y.detach().clone())
        return y  # type: ignore[no-any-return]


@dataclasses.dataclass
class Output:
    """The output of a model of a library."""

    logits: Tensor
    hidden: Tensor | None = None
    count: int = 0


class DataclassOutput(nn.Module):
    """A dataclass with a tensor, None and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Output:
        return Output(logits=self.layer(x), count=3)


class ManyOutputs(DataclassOutput):
    """Nested containers, None, integers, a view of the input and a complex tensor."""

    def forward(self, x: Tensor) -> dict[str, Any]:  # type: ignore[override]
        y = self.layer(x)
        return {
            "y": (y, None),
            "best": y.argmax(-1),
            "view": x[:, :4],
            "spectrum": torch.fft.rfft(y),
        }


class Tied(nn.Module):
    """Two layers with the same weight, and a forward hook."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.first.register_forward_hook(lambda _module, _args, output: output * 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())  # type: ignore[no-any-return]


class Frozen(nn.Module):
    """A part under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = self.body(x).tanh()
        return self.head(hidden)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """An LSTM with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, 32, num_layers=2, dropout=0.25, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x.unsqueeze(1))[0]  # type: ignore[no-any-return]


class Attending(nn.Module):
    """Scaled dot-product attention with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).view(1, ROWS, 3, 4, -1).permute(2, 0, 3, 1, 4)
        p = 0.1 if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p)


class Sampling(nn.Module):
    """A token that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 30)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.layer(x)
        return logits, torch.multinomial(logits.softmax(-1), 1)


def rows(seed: int = 0, *, width: int = WIDTH) -> Tensor:
    """Return a batch of ROWS vectors."""
    return torch.randn(ROWS, width, generator=torch.Generator().manual_seed(seed))
