"""Models whose own code calls torch.compile: their eager runs with compilation off."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

from compile_hud.runner.measure.subject import Subject

_TORCH = Path(torch.__file__).parent
_DYNAMO = _TORCH / "_dynamo"
# Dynamo's error in this stance, where it would compile.
_STANCE = "fail_on_recompile"


def turn_own_compilation_off(subject: Subject) -> str:
    """Let eager of `subject` compile nothing; return the line that would, empty for none.

    One iteration is executed. torch's own functions may compile: eager has no other form of them.
    Raises any error of the model.
    """
    if not hasattr(torch.compiler, "set_stance"):
        return ""
    step = subject.step(subject.model)
    try:
        with torch.compiler.set_stance(_STANCE):
            step()
    except RuntimeError as error:
        if _STANCE not in str(error):
            raise
        frame = _caller_of_dynamo(error)
        if frame is None:
            return ""
        subject.compiles_itself = True
        return f"{Path(frame.filename).name}:{frame.lineno}"
    return ""


def _caller_of_dynamo(error: RuntimeError) -> traceback.FrameSummary | None:
    """Return the frame that called a compiled function; None if it is one of torch."""
    caller = None
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if caller is not None and path.is_relative_to(_DYNAMO):
            return None if Path(caller.filename).is_relative_to(_TORCH) else caller
        caller = frame
    return None
