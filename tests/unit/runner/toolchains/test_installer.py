"""The arguments of pip, and the meaning of its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.runner.toolchains import installer
from compile_hud.runner.toolchains.installer import (
    ToolchainRequest,
    explain_failure,
    torch_arguments,
    zoo_arguments,
)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["numpy>=2.1", "torch>=2.9", "transformers>=5"]
    monkeypatch.setattr(installer, "declared_requirements", lambda: needed)


def request(**values: object) -> ToolchainRequest:
    usual: dict[str, object] = {"name": "t", "torch": "2.12.0", "python": Path("python")}
    return ToolchainRequest(**{**usual, **values})  # type: ignore[arg-type]


def test_a_version_is_requested_as_it_is() -> None:
    assert torch_arguments(request()) == ["torch==2.12.0"]


def test_without_a_version_the_newest_that_can_be_measured_is_requested() -> None:
    assert torch_arguments(request(torch=None)) == ["torch>=2.9"]


def test_a_nightly_comes_from_its_own_index() -> None:
    nightly = request(torch=None, is_nightly=True, index_url="file:///nightly")
    assert torch_arguments(nightly) == ["--pre", "--index-url", "file:///nightly", "torch>=2.9"]


def test_the_zoo_is_installed_within_the_constraints_and_torch_is_left_alone() -> None:
    arguments = zoo_arguments(request(packages=("timm",)), constraints=Path("c.txt"))
    assert arguments == ["-c", "c.txt", "numpy>=2.1", "transformers>=5", "timm"]


def test_what_goes_with_torch_is_looked_for_where_torch_is() -> None:
    arguments = zoo_arguments(request(index_url="file:///nightly"), constraints=Path("c.txt"))
    assert arguments[2:4] == ["--extra-index-url", "file:///nightly"]


UNKNOWN = (
    "ERROR: Could not find a version that satisfies the requirement torch==2.99"
    " (from versions: 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9)\n"
    "ERROR: No matching distribution found for torch==2.99\n"
)
NOTHING = UNKNOWN.replace("2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9", "none")


@pytest.mark.parametrize(
    ("output", "torch", "reason"),
    [
        (
            UNKNOWN,
            "2.99",
            "no torch 2.99 for this Python; the newest are 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9",
        ),
        (UNKNOWN, None, "no torch for this Python; the newest are 2.2, 2.3"),
        (
            f"WARNING: Retrying after NewConnectionError\n{NOTHING}",
            "2.99",
            "the package index does not answer; check the network and pip's configuration",
        ),
        (NOTHING, "2.99", "the package index has no torch for this Python; name another with"),
        (
            "ERROR: Could not install packages: [Errno 28] No space left on device",
            None,
            "the disk is full; a CUDA build of torch takes about 5 GB",
        ),
        (
            "Collecting x\nERROR: Cannot install a==1 and b because these conflict.\nmore",
            None,
            "Cannot install a==1 and b because these conflict.",
        ),
        (
            "ERROR: Could not find a version of timmm (from versions: none)\n"
            "ERROR: No matching distribution found for timmm\n",
            None,
            "No matching distribution found for timmm",
        ),
        ("one\ntwo\n\nthree\nfour\n", None, "two; three; four"),
        ("", None, "it said nothing"),
    ],
)
def test_a_failure_is_explained_in_one_line(output: str, torch: str | None, reason: str) -> None:
    assert explain_failure(output, torch=torch).startswith(reason)
