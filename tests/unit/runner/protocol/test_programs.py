"""The names of programs: code and launch."""

from __future__ import annotations

import pytest

from compile_hud.runner.protocol.messages import program


def test_modes_that_differ_in_autotuning_alone_launch_equal_code_alike() -> None:
    names = {program("f0" * 4, effective_mode=mode) for mode in ("default",
             "max-autotune-no-cudagraphs")}  # fmt: skip
    assert len(names) == 1


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "eager"])
def test_replayed_or_uncompiled_code_is_another_program(mode: str) -> None:
    assert program("f0" * 4, effective_mode=mode) != program("f0" * 4, effective_mode="default")


def test_other_code_is_another_program() -> None:
    default, other = (program(name, effective_mode="default") for name in ("0a1", "0a2"))
    assert default != other
