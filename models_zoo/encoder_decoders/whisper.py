"""Whisper: an encoder of sound, a decoder of text, without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import WhisperConfig, WhisperForConditionalGeneration

from compile_hud.models_zoo.building.inputs import normal, seeded_weights, token_ids

NUM_MEL_BINS = 80


class SpeechRecognizer(nn.Module):
    """Whisper that returns the decoder's logits, (batch, length, vocabulary)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, num_heads = config["hidden_size"], config["num_heads"]
        self.inner = WhisperForConditionalGeneration(
            WhisperConfig(
                vocab_size=config["vocab_size"],
                num_mel_bins=NUM_MEL_BINS,
                d_model=width,
                encoder_layers=config["num_layers"],
                decoder_layers=config["num_layers"],
                encoder_attention_heads=num_heads,
                decoder_attention_heads=num_heads,
                encoder_ffn_dim=4 * width,
                decoder_ffn_dim=4 * width,
                # The first convolutions halve the number of frames.
                max_source_positions=config["num_frames"] // 2,
                max_target_positions=config["max_length"],
                dropout=0.0,
                attention_dropout=0.0,
                activation_dropout=0.0,
                pad_token_id=0,
                bos_token_id=0,
                eos_token_id=0,
                decoder_start_token_id=0,
                use_cache=False,
            )
        )

    def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> Tensor:
        outputs = self.inner(input_features=input_features, decoder_input_ids=decoder_input_ids)
        logits: Tensor = outputs.logits
        return logits


def build(config: Mapping[str, Any]) -> nn.Module:
    """Return the model of `config` on the CPU in fp32."""
    return seeded_weights(lambda: SpeechRecognizer(config))


def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
    """Return the keyword arguments of one iteration: log-mel frames and the text so far."""
    batch, vocab_size = config["batch"], config["vocab_size"]
    return {
        "input_features": normal(batch, NUM_MEL_BINS, config["num_frames"], seed=seed),
        "decoder_input_ids": token_ids(
            batch, config["length"], vocab_size=vocab_size, seed=seed + 1
        ),
    }
