"""The folder of a toolchain in the state directory."""

from __future__ import annotations

import hashlib
from pathlib import Path


def toolchain_home(state_dir: Path, *, python: Path) -> Path:
    """Return the folder of files that runs under `python` share: logs, compiled headers."""
    name = hashlib.sha256(str(python).encode()).hexdigest()[:16]
    return (state_dir / "toolchains" / name).absolute()
