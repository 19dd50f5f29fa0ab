"""Llama 3 generating text: prefill of the prompts, then one token after the other, greedily."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from compile_hud.models_zoo.building.inputs import seeded_weights, token_ids
from compile_hud.models_zoo.building.static_cache import GrowingCache
from compile_hud.models_zoo.decoders.llama_config import llama_config


class Generator(nn.Module):
    """Llama that returns the logits of each new token, (batch, new tokens, vocabulary).

    As in a server, the loop is Python and a step is what a compiler sees: the prefill and a token
    are two graphs. `on_token` is called after each new token.
    """

    on_token: Callable[[], None] | None = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        head_size = config["hidden_size"] // config["num_heads"]
        self.inner = LlamaForCausalLM(llama_config(config))
        self.num_new_tokens = config["target_length"]
        self.cache = GrowingCache(
            config["batch"],
            config["num_key_value_heads"],
            config["source_length"] + self.num_new_tokens,
            head_size,
            num_layers=config["num_layers"],
        )

    # Dynamo skips the loop and compiles what it calls.
    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]
    def forward(self, input_ids: Tensor, next_ids: Tensor) -> Tensor:
        """Return the logits of the tokens that follow `input_ids`, (batch, length).

        `next_ids` are the new tokens, (batch, new tokens). Each step waits for the choice of the
        step before and then reads these: rounding cannot change the text.
        """
        positions = self.cache.all_positions()
        num_read, ids, logits = 0, input_ids, []
        for number in range(self.num_new_tokens):
            if number and input_ids.is_cuda:
                # Each replay of a CUDA graph is an iteration of its own.
                torch.compiler.cudagraph_mark_step_begin()
            scores, chosen = self.read(ids, positions[num_read : num_read + ids.shape[1]])
            # The next replay writes to the same memory.
            logits.append(scores.clone())
            num_read += ids.shape[1]
            ids = torch.where(chosen < 0, chosen, next_ids[:, number : number + 1])
            if self.on_token is not None:
                self.on_token()
        return torch.cat(logits, dim=1)

    def read(self, input_ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Read `input_ids` at `positions`; return the logits of the next token and the best one."""
        logits = self.inner(
            input_ids=input_ids,
            position_ids=positions[None],
            attention_mask=self.cache.mask(positions),
            past_key_values=self.cache.at(positions),
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits, logits.argmax(-1)


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: Generator(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: prompts of one length, and their answers."""
    batch, vocab_size = config["batch"], config["vocab_size"]
    return {
        "input_ids": token_ids(batch, config["source_length"], vocab_size=vocab_size, seed=seed),
        "next_ids": token_ids(batch, config["target_length"], vocab_size=vocab_size, seed=seed + 1),
    }
