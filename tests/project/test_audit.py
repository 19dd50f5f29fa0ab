"""The audit fails only for known vulnerabilities; a fake replaces pip-audit."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import ROOT, module_of, text_of

FLAW = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-1"], "fix_versions": ["2.0"]}
SOUND = {"name": "sound", "version": "1.0", "vulns": []}
FLAWED = {"name": "flawed", "version": "1.0", "vulns": [FLAW]}
SKIPPED = {"name": "skipped", "skip_reason": "Dependency not found on PyPI"}


@pytest.fixture
def audit() -> Any:
    """Return the script as a module."""
    return module_of(".ci/audit.py")


def saying(folder: Path, text: str, *, status: int = 0) -> list[str]:
    """Return a command that prints `text` and ends with `status`."""
    (folder / "fake.py").write_text(
        f"import sys\nprint({text!r})\nsys.stderr.write('no route to host\\n')\nsys.exit({status})",
        encoding="utf-8",
    )
    return [sys.executable, str(folder / "fake.py")]


@pytest.mark.parametrize(
    ("packages", "status", "message"),
    [
        ([SOUND], 0, ""),
        ([SOUND, FLAWED], 1, "audit: flawed 1.0: PYSEC-2026-1 (fixed in 2.0)\n"),
        ([SKIPPED, SOUND], 0, "audit: of 1 of 2 packages nobody could be asked\n"),
        ([SKIPPED, FLAWED], 1, "audit: flawed 1.0: PYSEC-2026-1 (fixed in 2.0)\n"),
    ],
)
def test_a_known_vulnerability_fails_and_no_answer_is_reported(
    audit: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    packages: list[Any],
    status: int,
    message: str,
) -> None:
    text = json.dumps({"dependencies": packages})
    assert audit.main(saying(tmp_path, text, status=status)) == status
    assert capsys.readouterr().err.startswith(message)
    assert bool(message) == any("skip_reason" in item or item["vulns"] for item in packages)


def test_an_unreachable_audit_service_is_reported_and_no_failure(
    audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main(saying(tmp_path, "", status=1)) == 0
    assert capsys.readouterr().err == "audit: nobody could be asked: no route to host\n"
    assert audit.main([str(tmp_path / "missing")]) == 0
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["PYSEC-2026-1", "CVE-2026-1"])
def test_what_is_accepted_is_so_until_its_day(audit: Any, name: str) -> None:
    line = f"# a comment\n{name} until 2026-03-01: we do not call it\n"
    report = {"dependencies": [FLAWED]}
    for today, is_reported in ((date(2026, 3, 1), False), (date(2026, 3, 2), True)):
        ignored = audit.accepted(line, today=today)
        assert bool(audit.vulnerabilities(report, ignored=ignored)) is is_reported


@pytest.mark.parametrize(
    "line", ["CVE-2026-1", "CVE-2026-1 until soon: why", "X until 2026-01-01: "]
)
def test_an_acceptance_needs_a_reason_and_an_end(audit: Any, line: str) -> None:
    with pytest.raises(ValueError, match="is not `ID until YYYY-MM-DD: reason`"):
        audit.accepted(line, today=date(2026, 1, 1))


def test_the_list_in_force_is_well_formed_and_used_by_make(audit: Any) -> None:
    audit.accepted(text_of(".ci/audit-ignored.txt"), today=date(2026, 1, 1))
    assert "$(BIN)/python .ci/audit.py\n" in text_of("Makefile")
    assert str(ROOT / "constraints.txt") in audit.COMMAND
