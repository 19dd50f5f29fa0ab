"""Documents show the output of commands about a run on an NVIDIA H200 as the commands print it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from compile_hud.runner.analysis.kernels.change_classes import ChangeKind
from compile_hud.runner.cli.main import main
from tests.support.sources import ROOT, text_of

CASE = "bert/inference/full/bf16"
RUN = "3ccc965334a2"
DIFF = ["kernels", "diff", f"{RUN}:{CASE}/eager", f"{RUN}:{CASE}/default"]


def blocks(document: str) -> list[list[str]]:
    """Return the lines of each block of a document that is no command."""
    texts = re.findall(r"^```\n(.*?)^```", text_of(document), re.DOTALL | re.MULTILINE)
    return [text.splitlines() for text in texts if not text.startswith("hud ")]


def cells(line: str) -> list[str]:
    """Return the texts of a line that its block did not cut."""
    return [part for part in re.split(r"\s{2,}|\.\.\.|; | -> | \+ ", line.strip()) if part]


@pytest.mark.parametrize(
    ("document", "command", "num_blocks"),
    [
        ("docs/explanation/measurement.md", ["show", RUN, f"{CASE}/default"], 1),
        ("docs/explanation/kernels.md", ["kernels", RUN, f"{CASE}/default"], 1),
        ("docs/how-to/read-a-kernel-diff.md", DIFF, 2),
    ],
)
def test_a_shortened_output_has_lines_of_the_whole_one(
    document: str,
    command: list[str],
    num_blocks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The clock of the machine that runs the tests is not what is tested.
    monkeypatch.setattr("compile_hud.runner.files.json_files.MAX_AHEAD", timedelta(days=36_500))
    store = ["--store", f"duckdb:///{tmp_path}/store.duckdb"]
    results = ROOT / "tests" / "fixtures" / "h200.json.gz"
    assert CliRunner().invoke(main, ["ingest", *store, str(results)]).exit_code == 0
    printed = CliRunner().invoke(main, [*command, *store]).output.splitlines()
    shown = [line for block in blocks(document)[:num_blocks] for line in block if line]
    assert len(shown) >= 7
    assert [
        line
        for line in shown
        if not any(all(cell in whole for cell in cells(line)) for whole in printed)
    ] == []


def test_the_page_explains_each_class_of_a_change() -> None:
    section = text_of("docs/explanation/kernels.md").partition("\n### Classes\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", section.partition("\n### ")[0], re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(rows)) != []
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {str(kind) for kind in ChangeKind}
