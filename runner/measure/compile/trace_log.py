"""torch's structured log of compilations (TORCH_TRACE), switched on in a running process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

VARIABLE = "TORCH_TRACE"


def write_trace_log(folder: Path) -> bool:
    """Let torch write its structured log below `folder`; return whether this torch can.

    torch reads the variable when it is imported, which the worker host has done long before.
    """
    internal: Any = getattr(torch._logging, "_internal", None)
    start = getattr(internal, "_init_logs", None)
    if start is None or not hasattr(internal, "LOG_TRACE_HANDLER"):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[VARIABLE] = str(folder)
    internal.LOG_TRACE_HANDLER = None
    start()
    return True
