"""Names of kernels as people read them, without what a compiler numbers by order."""

from __future__ import annotations

import re

_GENERATED = re.compile(r"(?:graph_\d+_)?((?:triton|cpp)_\w*?)(?:_\d+)?")


def label_of(name: str) -> str:
    """Return the name of a kernel without numbers by order and the noise of templates."""
    match = _GENERATED.fullmatch(name)
    return match.group(1) if match else name
