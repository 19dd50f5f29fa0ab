"""Compare the interfaces of two versions of a generated kernel, from their code and calls. Pure.

The build calls a kernel with its own arguments, of sizes that are numbers in the code. Code for
other arguments would read other memory, so anything that differs is a reason to refuse.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compile_hud.db.records.kernels import VECTOR_ISA, Kernel
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.kernels.standalone_script import SIGNATURE, TEAM

_PARAMETER = re.compile(r"\s*(?P<type>[\w:\s<>]+?[*\s]*[*\s])(?P<name>\w+)\s*")
_FUNCTION = re.compile(r"^def (\w+)\(([^)]*)\)", re.MULTILINE)
_TYPES = re.compile(r"'signature': (\{[^{}]*\})")
_NUMBER = re.compile(r"\d+$")
_VECTORS = "at::vec::"
# Scratch memory, whose size belongs to the code that calls the kernel.
_SCRATCH = re.compile(r"\b(?:ws_ptr|workspace|semaphores)\w*")


class RefusalReason(StrEnum):
    """The reason why a kernel is not transplanted."""

    NO_PAIR = "no_pair"
    REGROUPED = "regrouped"
    LIBRARY = "library"
    NO_SOURCE = "no_source"
    SAME_CODE = "same_code"
    ARGUMENTS = "arguments"
    SIZES = "sizes"
    SCRATCH = "scratch"
    THREADS = "threads"
    VECTORS = "vectors"
    CONFIG = "config"
    LIMIT = "limit"
    FAILED = "failed"
    RESULTS = "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCode:
    """One version of a kernel: its row of the table, its code and its language."""

    kernel: Kernel
    text: str
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceChange:
    """A difference of two interfaces, as a reason and a clause."""

    reason: RefusalReason
    text: str


def interface_change(
    good: KernelCode, bad: KernelCode, *, num_threads: int
) -> InterfaceChange | None:
    """Return the change that lets no build call `good` as it calls `bad`, None without one.

    `num_threads` are those of the case.
    """
    if good.language != bad.language:
        return InterfaceChange(
            reason=RefusalReason.ARGUMENTS, text=f"{good.language} before, {bad.language} now"
        )
    return (
        _parameters_change(good, bad)
        or _scratch_change(good, bad)
        or _sizes_change(good, bad)
        or _threads_change(good, bad, num_threads=num_threads)
        or _vectors_change(good)
    )


def _parameters_change(good: KernelCode, bad: KernelCode) -> InterfaceChange | None:
    before, after = _parameters(good), _parameters(bad)
    reason = RefusalReason.ARGUMENTS
    if before is None or after is None:
        text = "its code has no function as Inductor writes it"
        return InterfaceChange(reason=reason, text=text)
    if before == after:
        return None
    if len(before) != len(after):
        text = f"it took {counted(len(before), 'argument')} and takes {len(after)}"
        return InterfaceChange(reason=reason, text=text)
    pairs = zip(before, after, strict=True)
    number = next(index for index, pair in enumerate(pairs) if pair[0] != pair[1])
    text = f"argument {number + 1} was `{before[number]}` and is `{after[number]}`"
    return InterfaceChange(reason=reason, text=text)


def _parameters(code: KernelCode) -> list[str] | None:
    """Return the parameters with their types and roles; None if the code has no such function."""
    if code.language == "cpp":
        signature = SIGNATURE.search(code.text)
        matches = [
            _PARAMETER.fullmatch(part) for part in (signature[1].split(",") if signature else ())
        ]
        parameters = [match for match in matches if match]
        if not parameters or len(parameters) < len(matches):
            return None
        return [_declared(match["type"], match["name"]) for match in parameters]
    functions = dict(_FUNCTION.findall(code.text))
    types = _TYPES.search(code.text)
    if not functions or types is None:
        return None
    names = functions.get(code.kernel.name) or [*functions.values()][-1]
    known = _literal(types[1])
    return [
        _declared(str(known.get(name, "constexpr")), name)
        for name in (part.partition(":")[0].strip() for part in names.split(","))
        if known.get(name, "constexpr") != "constexpr"
    ]


def _declared(kind: str, name: str) -> str:
    """Return a parameter without the number by which Inductor counts it."""
    return f"{' '.join(kind.split()).replace(' *', '*')} {_NUMBER.sub('', name)}"


def _literal(text: str) -> Mapping[str, Any]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {}
    return value if isinstance(value, dict) else {}


def _scratch_change(good: KernelCode, bad: KernelCode) -> InterfaceChange | None:
    if good.language == "triton" and any(_SCRATCH.search(side.text) for side in (good, bad)):
        text = "it takes scratch memory, whose size belongs to the build that calls it"
        return InterfaceChange(reason=RefusalReason.SCRATCH, text=text)
    return None


def _sizes_change(good: KernelCode, bad: KernelCode) -> InterfaceChange | None:
    before, after = (_arguments(side.kernel) for side in (good, bad))
    reason = RefusalReason.SIZES
    if before is None or after is None:
        text = "the sizes of its arguments were not recorded on both sides"
        return InterfaceChange(reason=reason, text=text)
    if len(before) != len(after):
        text = f"it was called with {counted(len(before), 'value')} and is called with {len(after)}"
        return InterfaceChange(reason=reason, text=text)
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            text = f"argument {number + 1} was {_argument_text(one)} and is {_argument_text(other)}"
            return InterfaceChange(reason=reason, text=text)
    return None


def _arguments(kernel: Kernel) -> Sequence[Any] | None:
    arguments = kernel.launch.get("arguments")
    return arguments if isinstance(arguments, list) and arguments else None


def _argument_text(argument: Any) -> str:
    if not isinstance(argument, dict):
        return str(argument)
    if "same_as" in argument:
        return f"the memory of argument {argument['same_as'] + 1}"
    if "sizes" not in argument:
        return str(argument.get("type"))
    return f"{argument['dtype']}{argument['sizes']} with strides {argument['strides']}"


def _threads_change(
    good: KernelCode, bad: KernelCode, *, num_threads: int
) -> InterfaceChange | None:
    before, after = (set(TEAM.findall(side.text)) for side in (good, bad))
    # Code may become serial in a build that has as many threads as before.
    others = before - after - {str(num_threads)}
    if good.language != "cpp" or not others:
        return None
    text = (
        f"it was generated for {', '.join(sorted(others))} threads, and the case has {num_threads}"
    )
    return InterfaceChange(reason=RefusalReason.THREADS, text=text)


def _vectors_change(good: KernelCode) -> InterfaceChange | None:
    if good.language == "cpp" and _VECTORS in good.text and VECTOR_ISA not in good.kernel.launch:
        text = "the vector instructions that it was compiled for were not recorded"
        return InterfaceChange(reason=RefusalReason.VECTORS, text=text)
    return None
