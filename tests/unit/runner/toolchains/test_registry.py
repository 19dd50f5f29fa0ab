"""The valid names of toolchains."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import ToolchainError
from compile_hud.runner.toolchains.registry import toolchain_folder

STATE = Path("state")


@pytest.mark.parametrize("name", ["torch-2.12", "a", "2.13.0+cpu", "night_ly"])
def test_a_toolchain_has_a_folder_of_its_name(name: str) -> None:
    assert toolchain_folder(name, state_dir=STATE) == STATE / "venvs" / name


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "-x", "two words", "a\n"])
def test_what_is_no_folder_is_no_name(name: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ToolchainError) as caught:
        toolchain_folder(name, state_dir=STATE)
    assert caught.value.parameters == {"toolchain": name, "problem": "name"}
    assert str(caught.value) == words
