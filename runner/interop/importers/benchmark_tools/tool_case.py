"""The case of a benchmark of a general tool, from its name and parameters.

Such tools know no models. A benchmark's name is the model here, and its parameters are the shape.
One that names a mode of torch.compile, a dtype, a device or a phase is that part of the case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.models_zoo.catalog.variants import MODES
from compile_hud.runner.interop.importers.vocabulary import (
    COMPILE_FLAGS,
    DEVICES,
    DTYPES,
    FALSE_WORDS,
    PHASES,
    TRUE_WORDS,
    UNKNOWN,
    clean_name,
    clean_part,
    mode_of,
)

_MODE_NAMES = ("mode", "compile_mode", "torch_compile_mode")
_PHASE_NAMES = ("phase", "benchmark_mode")


def tool_case(name: str, *, tool: str, parameters: Mapping[str, str]) -> Case:
    """Return the case of the benchmark `name` of a `tool` with these parameters."""
    case = Case(
        model=clean_name(name.strip() or UNKNOWN),
        family=tool,
        phase=Phase.OTHER,
        shape="default",
        dtype=Dtype.OTHER,
        mode=UNKNOWN,
        variant=UNKNOWN,
        backend="",
        device=UNKNOWN,
    )
    shape = []
    for key, text in parameters.items():
        changes = _case_fields(key.strip().lower(), _plain(text))
        case = replace(case, **changes)
        # An argument without a name has its position for one.
        shape += [] if changes else [f"{key}={_plain(text)}" if key.strip() else _plain(text)]
    return replace(case, shape=clean_part("-".join(shape)) or "default")


def _case_fields(key: str, text: str) -> dict[str, Any]:
    """Return the fields of a case that a parameter states, empty for one of the benchmark alone."""
    word = text.lower()
    mode = ""
    if key in _MODE_NAMES and mode_of(text) in MODES:
        mode = mode_of(text)
    elif key in COMPILE_FLAGS and word in TRUE_WORDS + FALSE_WORDS:
        mode = "default" if word in TRUE_WORDS else "eager"
    if mode:
        return {"mode": mode, "variant": mode}
    if key == "dtype" and word in DTYPES:
        return {"dtype": DTYPES[word]}
    # A second GPU is the same kind of device.
    if key == "device" and word.partition(":")[0] in DEVICES:
        return {"device": word.partition(":")[0]}
    if key in _PHASE_NAMES and word in PHASES:
        return {"phase": PHASES[word]}
    return {}


def _plain(text: str) -> str:
    """Return a parameter as a person writes it: without quotes, and `float16` for a torch dtype."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return (text[1:-1] if is_quoted else text).strip().removeprefix("torch.")


def parameter_texts(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters of any JSON kind as texts."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in parameters.items()
    }
