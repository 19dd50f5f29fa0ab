"""Mamba with its language-model head: a selective state space instead of attention.

Formulas: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023. The
published kernels scan on the chip, and the compiler would unroll a loop over tokens. So the scan
here is the one of Hillis and Steele, "Data Parallel Algorithms", 1986. It doubles its reach in each
of log2(length) steps, and the compiler sees only these steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids

EXPANSION = 2
CONVOLUTION_LENGTH = 4
NORM_EPS = 1e-5
# The published model draws its time steps from this range, log-uniformly.
MIN_TIME_STEP, MAX_TIME_STEP = 0.001, 0.1
EMBEDDING_STD = 0.02


class Mixer(nn.Module):
    """Convolution, selective scan and gate of one layer; (batch, length, width) in and out."""

    def __init__(self, *, width: int, state_size: int) -> None:
        super().__init__()
        inner, self.rank, self.state_size = EXPANSION * width, math.ceil(width / 16), state_size
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.convolution = nn.Conv1d(
            inner, inner, CONVOLUTION_LENGTH, groups=inner, padding=CONVOLUTION_LENGTH - 1
        )
        self.x_proj = nn.Linear(inner, self.rank + 2 * state_size, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        self.out_proj = nn.Linear(inner, width, bias=False)
        decays = torch.arange(1, state_size + 1, dtype=torch.float32).repeat(inner, 1)
        self.log_decay = nn.Parameter(decays.log())
        self.skip = nn.Parameter(torch.ones(inner))
        spread = math.log(MAX_TIME_STEP / MIN_TIME_STEP)
        steps = MIN_TIME_STEP * torch.exp(torch.rand(inner) * spread)
        with torch.no_grad():
            # The inverse of softplus.
            self.dt_proj.bias.copy_(steps + torch.log(-torch.expm1(-steps)))

    def forward(self, hidden: Tensor) -> Tensor:
        stream, gate = self.in_proj(hidden).chunk(2, dim=-1)
        convolved = self.convolution(stream.mT)[..., : hidden.shape[1]].mT
        stream = F.silu(convolved)
        scanned = self._scan(stream) + stream * self.skip
        mixed: Tensor = self.out_proj(scanned * F.silu(gate))
        return mixed

    def _scan(self, stream: Tensor) -> Tensor:
        low_rank, write, read = self.x_proj(stream).split(
            [self.rank, self.state_size, self.state_size], dim=-1
        )
        # In bf16 the states would lose small updates.
        dtype = torch.promote_types(stream.dtype, torch.float32)
        step = F.softplus(self.dt_proj(low_rank)).to(dtype)[..., None]
        # From here on the shape is (batch, length, inner, state).
        decay = torch.exp(-step * self.log_decay.to(dtype).exp())
        states = scan(decay, step * stream[..., None] * write[..., None, :])
        return torch.einsum("blds,bls->bld", states, read.to(dtype)).to(stream.dtype)


def scan(decay: Tensor, added: Tensor) -> Tensor:
    """Return h with h[t] = decay[t] * h[t-1] + added[t] along dimension 1, from h = 0."""
    reach = 1
    while reach < added.shape[1]:
        later = (0, 0, 0, 0, reach, 0)
        added = added + decay * F.pad(added[:, :-reach], later)
        decay = decay * F.pad(decay[:, :-reach], later)
        reach *= 2
    return added


class Layer(nn.Module):
    """Norm and mixer, added to the residual stream."""

    def __init__(self, *, width: int, state_size: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mixer = Mixer(width=width, state_size=state_size)

    def forward(self, hidden: Tensor) -> Tensor:
        mixed: Tensor = self.mixer(self.norm(hidden))
        return hidden + mixed


class StateSpaceLanguageModel(nn.Module):
    """Mamba that returns its logits, (batch, length, vocabulary); the head is the embedding."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.embedding = nn.Embedding(config["vocab_size"], width)
        nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)
        self.layers = nn.ModuleList(
            Layer(width=width, state_size=config["state_size"]) for _ in range(config["num_layers"])
        )
        self.norm = nn.RMSNorm(width, eps=NORM_EPS)

    def forward(self, input_ids: Tensor) -> Tensor:
        hidden = self.embedding(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return F.linear(self.norm(hidden), self.embedding.weight)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: StateSpaceLanguageModel(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration."""
    batch, length = config["batch"], config["length"]
    return {"input_ids": token_ids(batch, length, vocab_size=config["vocab_size"], seed=seed)}
