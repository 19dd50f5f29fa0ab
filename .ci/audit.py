"""Ask pip-audit whether a pinned package has a known vulnerability.

The exit status is 1 for a vulnerability, unless `audit-ignored.txt` accepts it until a day to come.
Without an answer (no network, an index without advisories) the script prints that and succeeds:
unknown facts must not stop work without a network.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IGNORED = ROOT / ".ci" / "audit-ignored.txt"
COMMAND = (
    sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "constraints.txt"),
    "--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off",
)  # fmt: skip
# Some 170 packages, each a short request.
TIMEOUT_S = 120
_LINE = re.compile(r"(?P<id>[A-Za-z0-9-]+) until (?P<day>\d{4}-\d\d-\d\d): (?P<reason>\S.*)")


def accepted(text: str, *, today: date) -> set[str]:
    """Return the ids that `text` accepts today; raise ValueError for a line without a reason."""
    ids = set()
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{IGNORED.name}: {line!r} is not `ID until YYYY-MM-DD: reason`")
        if date.fromisoformat(match["day"]) >= today:
            ids.add(match["id"])
    return ids


def vulnerabilities(report: Mapping[str, Any], *, ignored: set[str]) -> list[str]:
    """Return a line for each vulnerability in `report` that is not ignored by any of its names."""
    return [
        f"{package['name']} {package['version']}: {item['id']}"
        f" (fixed in {', '.join(item['fix_versions']) or 'no version yet'})"
        for package in report["dependencies"]
        for item in package.get("vulns", ())
        if not {item["id"], *item.get("aliases", ())} & ignored
    ]


def unasked(report: Mapping[str, Any]) -> list[str]:
    """Return the packages that could not be audited."""
    return [item["name"] for item in report["dependencies"] if "skip_reason" in item]


def ask(command: Sequence[str]) -> Mapping[str, Any] | str:
    """Return the report, or the reason why there is none."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        report: Mapping[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT_S} s"
    except OSError as error:
        return str(error)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
    return report


def main(command: Sequence[str] = COMMAND) -> int:
    """Print the report; return the exit status."""
    today = datetime.now(timezone.utc).date()
    ignored = accepted(IGNORED.read_text(encoding="ascii"), today=today)
    report = ask(command)
    if isinstance(report, str):
        sys.stderr.write(f"audit: nobody could be asked: {report}\n")
        return 0
    vulnerable, silent = vulnerabilities(report, ignored=ignored), unasked(report)
    sys.stderr.writelines(f"audit: {line}\n" for line in vulnerable)
    if silent:
        num = len(report["dependencies"])
        sys.stderr.write(f"audit: of {len(silent)} of {num} packages nobody could be asked\n")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or COMMAND))
