"""The precompiled header of a toolchain is built before a compilation is timed, and once only."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compile_hud.runner.execution.local_executor import HEADER_FACTS, header_mark
from tests.support.fakes import FACTS


@pytest.fixture(scope="module")
def worker() -> ModuleType:
    with warnings.catch_warnings():
        # Inductor's imports use what torch deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module("compile_hud.runner.worker.fork_server")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the functions that were compiled; nothing is."""
    names: list[str] = []

    def compile_nothing(function: Callable[..., Any]) -> Callable[..., Any]:
        names.append(function.__name__)
        return function

    monkeypatch.setattr(torch, "compile", compile_nothing)
    return names


def keep_headers_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._inductor.codecache, "_HEADER_DIR", str(folder))


def test_a_header_that_was_built_is_not_built_again(
    worker: ModuleType, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_headers_in(tmp_path, monkeypatch)
    worker._prime("mark")
    worker._prime("mark")
    assert compiled == ["tiny"]


def test_a_header_of_another_environment_is_built(
    worker: ModuleType, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_headers_in(tmp_path, monkeypatch)
    worker._prime("mark")
    worker._prime("other")
    assert compiled == ["tiny", "tiny"]


def test_headers_that_were_removed_are_built_again(
    worker: ModuleType, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_headers_in(tmp_path / "headers", monkeypatch)
    worker._prime("mark")
    worker._prime("mark")
    assert compiled == ["tiny", "tiny"]


def test_a_torch_that_keeps_headers_elsewhere_builds_them_each_time(
    worker: ModuleType, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch._inductor.codecache, "_HEADER_DIR")
    worker._prime("mark")
    worker._prime("mark")
    assert compiled == ["tiny", "tiny"]


@pytest.mark.parametrize("name", HEADER_FACTS)
def test_the_mark_names_what_the_headers_depend_on(name: str) -> None:
    assert header_mark(FACTS) == header_mark({**FACTS, "hostname": "other"})
    assert header_mark(FACTS) != header_mark({**FACTS, name: "other"})


@pytest.mark.usefixtures("worker")
def test_torch_keeps_its_headers_where_the_mark_is_put() -> None:
    assert Path(torch._inductor.codecache._HEADER_DIR).name == "precompiled_headers"
