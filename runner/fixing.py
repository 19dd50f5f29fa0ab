"""Change the machine as doctor proposes, and change it back.

What a change replaces is on the disk before the change is made, so that whatever dies when, it can
be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from db.errors import RecordError
from runner.check import Fix
from runner.documents import read_json
from runner.errors import FixError
from runner.protocol import write_json
from runner.this_machine import Machine

# 1: first version.
FIXES_VERSION = 1


class Fixes:
    """The changes that were made, newest last, in a file of the state directory."""

    def __init__(self, state_dir: Path, *, machine: Machine) -> None:
        self.path = state_dir / "doctor.json"
        self._machine = machine

    def made(self) -> tuple[Fix, ...]:
        """Return the changes that can be taken back; raise FixError when they cannot be read."""
        try:
            document = read_json(self.path)
            if document["schema_version"] != FIXES_VERSION:
                raise FixError(f"{self.path} was written by another version of Compile HUD")
            return tuple(Fix.from_json(item) for item in document["fixes"])
        except FileNotFoundError:
            return ()
        except (OSError, RecordError, KeyError, TypeError) as error:
            raise FixError(f"{self.path} cannot be read: {error}") from error

    def make(self, fix: Fix) -> str:
        """Make one change; return why it was not made, empty when it was.

        Raises FixError when what it replaces cannot be noted; nothing is changed then.
        """
        made = self.made()
        self._save((*made, fix))
        problem = self._apply(fix)
        if problem:
            self._save(made)
        return problem

    def take_back(self) -> list[tuple[Fix, str]]:
        """Take every change back, newest first; return each with why not, empty where it was."""
        done: list[tuple[Fix, str]] = []
        for fix in reversed(self.made()):
            problem = self._apply(_backwards(fix))
            done.append((fix, problem))
        left = [fix for fix, problem in reversed(done) if problem]
        if done:
            self._save(left)
        return done

    def _apply(self, fix: Fix) -> str:
        if fix.command:
            return self._machine.ask(*fix.command).problem
        for number, (path, value) in enumerate(zip(fix.paths, fix.before, strict=True)):
            try:
                self._machine.write(path, fix.value or value)
            except OSError as error:
                # All or nothing: half of the CPUs at another clock is worse than none.
                for written, before in zip(fix.paths[:number], fix.before, strict=False):
                    self._machine.write(written, before)
                return f"{path}: {error.strerror}"
        return ""

    def _save(self, fixes: Sequence[Fix]) -> None:
        if not fixes:
            self.path.unlink(missing_ok=True)
            return
        document = {"schema_version": FIXES_VERSION, "fixes": [fix.to_json() for fix in fixes]}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, document)
        except OSError as error:
            raise FixError(
                f"cannot note in {self.path} what would be changed ({error.strerror}); nothing is"
                " changed"
            ) from error


def _backwards(fix: Fix) -> Fix:
    # Without a value each file gets what it held.
    return replace(fix, value="", command=fix.undo_command, undo_command=fix.command)
