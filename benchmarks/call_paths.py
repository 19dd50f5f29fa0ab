"""Count the files that a reader opens to follow one task, and the returns to earlier files.

The reader opens a function, then each function that it called during the task, and goes back to the
caller. The reader reads no function twice. A stay is a stretch of this path in one file. A return
is a stay in a file that was open before. Only files of the product count.

    python -m benchmarks.call_paths alert-page
    python -m benchmarks.call_paths detect
    python -m benchmarks.call_paths alert-page --until alert_facts
    python -m benchmarks.call_paths alert-page --part app --files
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from streamlit.testing.v1 import AppTest

import compile_hud
import compile_hud.app.main
from compile_hud.db.store import Store
from compile_hud.runner.detection.detect import detect
from tests.support.stores import dashboard_stores

ROOT = Path(compile_hud.__file__).parent
PARTS = ("app", "db", "models_zoo", "runner")


@dataclass(slots=True)
class CallPath:
    """The stays of a reader, in order, as files of the product."""

    parts: tuple[str, ...] = PARTS
    # The function at whose end the reader's question is answered; "" is the end of the task.
    until: str = ""
    stays: list[str] = field(default_factory=list)
    num_functions: int = 0
    # The callees of each function, in the order of the first calls; None is the task itself.
    _calls: dict[CodeType | None, dict[CodeType, None]] = field(default_factory=dict)
    _files: dict[str, str | None] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """Return the files in the order in which they were opened."""
        return list(dict.fromkeys(self.stays))

    @property
    def num_returns(self) -> int:
        """Return the number of returns to a file."""
        return len(self.stays) - len(self.files)

    def trace(self, task: Callable[[], Any]) -> None:
        """Run `task`, and record the stays of who reads it afterwards."""
        sys.setprofile(self._event)
        try:
            task()
        finally:
            sys.setprofile(None)
        known: set[CodeType] = set()
        for code in self._calls.get(None, {}):
            if self._read(code, known=known):
                return

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and self._is_read(frame.f_code):
            caller = frame.f_back
            while caller is not None and not self._is_read(caller.f_code):
                caller = caller.f_back
            callees = self._calls.setdefault(caller.f_code if caller else None, {})
            callees.setdefault(frame.f_code)

    def _read(self, code: CodeType, *, known: set[CodeType]) -> bool:
        """Record the stays in a function and in what it calls; return whether they answer."""
        if code in known:
            return False
        known.add(code)
        self.num_functions += 1
        name = self._file(code)
        assert name is not None
        self._stay(name)
        for callee in self._calls.get(code, {}):
            if self._read(callee, known=known):
                return True
            self._stay(name)
        return code.co_name == self.until

    def _is_read(self, code: CodeType) -> bool:
        # Comprehensions and lambdas are read with the function that has them.
        return not code.co_name.startswith("<") and self._file(code) is not None

    def _file(self, code: CodeType) -> str | None:
        path = code.co_filename
        if path not in self._files:
            real = os.path.realpath(path)
            folders = {part: os.path.realpath(ROOT / part) + os.sep for part in self.parts}
            self._files[path] = next(
                (
                    f"{part}/{real.removeprefix(folder)}"
                    for part, folder in folders.items()
                    if real.startswith(folder)
                ),
                None,
            )
        return self._files[path]

    def _stay(self, name: str) -> None:
        if not self.stays or self.stays[-1] != name:
            self.stays.append(name)


def _alert_script() -> None:
    # This runs as a script of its own, so it imports its modules itself.
    import streamlit as st

    from compile_hud.app.main import VIEWS

    show = next(view.show for view in VIEWS if view.path == "alerts")
    st.session_state["path"].trace(show)


def follow_alert_page(store: Store, path: CallPath) -> None:
    """Follow the page of an alert from its function to the values it shows."""
    assert store.store_version()
    page = AppTest.from_function(_alert_script)
    page.query_params["alert"] = dashboard_stores.regression().id
    page.session_state["path"] = path
    page.run(timeout=120)
    assert not page.exception, page.exception


def follow_detect(store: Store, path: CallPath) -> None:
    """Follow the detection of changes in a store with new results."""
    path.trace(lambda: detect(store))


TASKS = {"alert-page": follow_alert_page, "detect": follow_detect}


def main() -> None:
    """Print files, stays and returns of a task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--part", action="append", choices=PARTS, help="count these parts only")
    parser.add_argument("--until", default="", help="stop at the end of this function")
    parser.add_argument("--files", action="store_true", help="list the stays")
    options = parser.parse_args()
    path = CallPath(parts=tuple(options.part or PARTS), until=options.until)
    with tempfile.TemporaryDirectory() as folder:
        url = f"duckdb:///{folder}/store.duckdb"
        os.environ["HUD_DATABASE_URL"] = url
        store = Store(url)
        dashboard_stores.fill(store)
        TASKS[options.task](store, path)
    if options.files:
        print("\n".join(path.stays))
    print(
        f"{options.task}: {path.num_functions} functions in {len(path.files)} files,"
        f" {len(path.stays)} stays, {path.num_returns} returns"
    )


if __name__ == "__main__":
    main()
