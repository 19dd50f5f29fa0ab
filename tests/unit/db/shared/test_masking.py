"""Logs of other people's programs: likely secrets are masked, everything else stays."""

from __future__ import annotations

import time

import pytest

from compile_hud.db.shared.text import masked

SECRET = "s3cretv4lue"


@pytest.mark.parametrize(
    "text",
    [
        f"HUD_METRICS_TOKEN={SECRET} rest",
        f"'AWS_SECRET_ACCESS_KEY': '{SECRET} with a blank', 'HOME': '/root'",
        f'{{"password": "{SECRET}"}}',
        f"api-key : {SECRET}",
        f"run --hub-token {SECRET} --fast",
        f"postgresql+psycopg://hud:{SECRET}@db.example/hud",
        f"Authorization: Bearer {SECRET}",
        f"hf_{SECRET}{SECRET}",
        "AKIA0123456789ABCDEF",
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    shown = masked(text)
    assert "***" in shown
    assert SECRET not in shown
    assert "AKIA0" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "num_tokens=128000 token_ids: tensor([[101, 102]])",
        "eos_token='</s>'",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x2)",
        "see https://example.org/a:b@c",
        "no key: 1234567890",
    ],
)
def test_what_models_say_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("piece", ["a", "TOKEN", "--", "://x:", "Bearer ", '"', "token ='"])
def test_a_long_line_costs_no_more_than_its_length(piece: str) -> None:
    """Sixteen kilobytes that nearly fit take milliseconds, not the minutes of a bad pattern."""
    started_s = time.process_time()
    masked(piece * (16_384 // len(piece)))
    assert time.process_time() - started_s < 0.5
