"""The interface of doctor and scheduler to the machine: its files and its programs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# nvidia-smi takes a second or more while the driver is being loaded; a hung driver never returns.
ASK_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutput:
    """The output of a program, or the reason of its failure; one of the two is empty."""

    text: str = ""
    problem: str = ""


class Machine(Protocol):
    """The files and programs of a machine."""

    def read(self, path: str) -> str | None:
        """Return the text of a file without its last newline, None when it cannot be read."""
        ...

    def find(self, pattern: str) -> list[str]:
        """Return the paths of the files that a glob matches, in order."""
        ...

    def ask(self, *command: str) -> ProgramOutput:
        """Return the output of a program; a missing program is a problem in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMachine:
    """This machine. Paths are looked up under `root`."""

    root: Path = Path("/")

    def read(self, path: str) -> str | None:
        """Return the text of a file without its last newline, None when it cannot be read."""
        try:
            text = (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return text.rstrip("\n")

    def find(self, pattern: str) -> list[str]:
        """Return the paths of the files that a glob matches, in order."""
        paths = self.root.glob(pattern.lstrip("/"))
        return sorted(f"/{path.relative_to(self.root)}" for path in paths)

    def ask(self, *command: str) -> ProgramOutput:
        try:
            answer = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=ASK_TIMEOUT_S,
            )
        except OSError as error:
            return ProgramOutput(problem=f"{command[0]}: {error.strerror}")
        except subprocess.TimeoutExpired:
            return ProgramOutput(problem=f"{command[0]} did not answer in {ASK_TIMEOUT_S:g} s")
        if answer.returncode:
            lines = (answer.stderr or answer.stdout).strip().splitlines()
            end = lines[-1] if lines else "and said nothing"
            return ProgramOutput(problem=f"{command[0]} ended with code {answer.returncode}: {end}")
        return ProgramOutput(text=answer.stdout.strip())
