"""The notes of a worker about the kernels of a trace: source code, work and origin, as JSON.

The worker writes them and the runner reads them, so the module needs only the standard library of
Python 3.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import JsonRecord, decode, encode
from compile_hud.db.records.json_fields import (
    SCHEMA_VERSION,
    check_schema_version,
    get_number,
    get_text,
)
from compile_hud.db.records.kernels import Origin
from compile_hud.db.shared.text import quoted

DEVICES = ("cpu", "cuda")
LANGUAGES = ("triton", "cpp")


def _get_device(document: Any, name: str) -> str:
    device = get_text(document, name)
    if device not in ("", *DEVICES):
        raise RecordError(
            f"field {name!r} is {quoted(device)}; allowed: {', '.join(DEVICES)}", device=device
        )
    return device


def _get_language(document: Any, name: str) -> str:
    language = get_text(document, name)
    if language not in LANGUAGES:
        raise RecordError(
            f"field {name!r} is {quoted(language)}; allowed: {', '.join(LANGUAGES)}",
            language=language,
        )
    return language


def _get_amount(document: Any, name: str) -> float:
    number = get_number(document, name)
    if not 0 <= number < float("inf"):
        raise RecordError(
            f"field {name!r} must be finite and not negative, got {number!r}",
            name=name,
            number=number,
        )
    return number


_Amount = Annotated[float, _get_amount]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNote(JsonRecord):
    """One generated kernel: its code, its work and its origin.

    `num_bytes` and `flops` are of one call, None if unknown. `dtype` is the type of a matrix
    product's operations, else empty. `arguments` are the JSON values of its first call
    (runner/measure/kernels/generated_code.py), empty if that was not recorded. `spills` is the
    number of register spills of a Triton kernel, None if unknown. `vector_isa` has the vector
    instructions that C++ code was compiled for, "" for none and None if unknown.
    """

    language: Annotated[str, _get_language]
    source: str
    num_bytes: _Amount | None = None
    flops: _Amount | None = None
    dtype: str = ""
    origins: tuple[Origin, ...] = ()
    arguments: tuple[Any, ...] = ()
    spills: _Amount | None = None
    vector_isa: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNotes:
    """The notes of one trace by kernel name; all fields are empty for a trace of another program.

    `num_iterations` is 0 and `device` is empty if unknown. `call_lines` maps the path of a module
    to the user's line, `FILE:LINE`, of its library calls.
    """

    device: Annotated[str, _get_device] = ""
    num_iterations: int = 0
    kernels: Mapping[str, KernelNote] = field(default_factory=dict)
    call_lines: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the notes as a JSON document."""
        return {"schema_version": SCHEMA_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Any) -> KernelNotes:
        """Return the notes that `document` describes; raise RecordError when it does not."""
        check_schema_version(document)
        return decode(cls, document)
