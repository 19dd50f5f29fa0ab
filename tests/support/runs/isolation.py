"""A terminal with two toolchains of small packages, whose mixtures are real and launches drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.fakes import FakeExecutor
from tests.support.runs.bisection import CASE, BisectTerminal

# The seconds of an iteration by the versions of packages and by variables; 0: it does not start,
# below 0: the case fails.
Cost = Callable[[Mapping[str, str]], float]
OLD = {f"part-{number}": "1.0" for number in range(5)}
NEW = dict.fromkeys(OLD, "2.0")
_REPORT = """
import importlib.metadata, json, os
items = importlib.metadata.distributions()
versions = {item.metadata["Name"]: item.version for item in items}
print(json.dumps({**versions, **{name: os.environ[name] for name in os.environ if "HUD_" in name}}))
"""


class IsolateTerminal(BisectTerminal):
    """A terminal with the toolchains `old` and `new`, of packages by their versions."""

    def __init__(
        self,
        folder: Path,
        old: Mapping[str, str],
        new: Mapping[str, str],
        *,
        cost: Cost,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, {})
        self.cost = cost
        pythons = {
            "old": make_toolchain(folder / "old", old),
            "new": make_toolchain(folder / "new", new, variables=variables or {}),
        }
        lines = [f'{name} = "{python}"' for name, python in pythons.items()]
        config = folder / "hud.toml"
        config.write_text("\n".join([config.read_text(), *lines, ""]))

    def make_executor(self, *, python: Path, **values: Any) -> FakeExecutor:
        """Return a fake that launches at the cost of what the interpreter really has."""
        name = python.parent.name
        answer = subprocess.run([python, "-c", _REPORT], capture_output=True, check=True)
        self.levels[name] = self.cost(json.loads(answer.stdout))
        # The base class takes the name from a path such as /opt/NAME/bin/python.
        return super().make_executor(python=Path("/opt") / name / "bin" / "python", **values)

    def isolate(self, *arguments: str) -> Any:
        """Return the document of `hud isolate old new --json`, whatever its exit code."""
        result = self.hud("isolate", "old", "new", *CASE, *arguments, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)


def slow_part(facts: Mapping[str, str]) -> float:
    """Return the cost of packages of which `part-3` is slower in its version 2.0."""
    return 0.013 if facts.get("part-3") == "2.0" else 0.010


def names_of(document: Mapping[str, Any]) -> list[list[str]]:
    """Return the names of the differences of each share."""
    return [[item["name"] for item in share["differences"]] for share in document["shares"]]


def make_toolchain(
    folder: Path, packages: Mapping[str, str], *, variables: Mapping[str, str] | None = None
) -> Path:
    """Make a virtual environment with packages of one module each; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    for name, version in packages.items():
        write_package(site, name, version)
    lines = [f"export {name}='{text}'" for name, text in (variables or {}).items()]
    python = folder / "python"
    python.write_text("\n".join(["#!/bin/sh", *lines, f'exec {folder}/env/bin/python "$@"', ""]))
    python.chmod(0o755)
    return python


def write_package(site: Path, name: str, version: str) -> None:
    """Write a package with its metadata below the folder `site`."""
    module = name.replace("-", "_")
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (site / f"{module}.py").write_text(f"VERSION = {version!r}\n")
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{module}.py,,\n{info.name}/METADATA,,\n{info.name}/RECORD,,\n")
