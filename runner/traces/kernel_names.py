"""Readable names of kernels.

Mangled symbols, as some profilers of ROCm write them, become C++ names first (demangling.py).
Generated kernels lose the number that the compiler assigns by order. C++ names lose their
namespaces, their arguments and the template parameters that do not affect the computation (vector
widths, offset calculators, index types). An ATen loop becomes the loop, its functor and its types.
Names of vendors' products keep the tile and the algorithm.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from compile_hud.runner.traces.demangling import demangled

_GENERATED = re.compile(r"(?:graph_\d+_)?((?:triton|cpp)_\w*?)(?:_\d+)?")
_RESULT_TYPE = re.compile(r"^(?:void|static|std::enable_if<.*?>::type)\s+")
_UNNAMED = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\bstatic ")
_WRAPPER = re.compile(r"(?:cutlass|cutlass__5x_cudnn|cutlass_cudnn\w*)::Kernel2?<(\w+)>")
_HEAD = re.compile(r"[^<({,]*")
_LAMBDA_TYPES = re.compile(r"\{lambda\(([^(){}]+)\)#\d+\}")
# Parameters of the loops in aten/src/ATen/native/cuda that depend on alignment and layout alone.
_NOISE = re.compile(
    r"\d+\w*|true|false|unsigned int|(std::)?array\b.*|(at::detail::)?Array\b.*"
    r"|.*OffsetCalculator\b.*|.*memory::(Load|Store)\w+.*|.*OffsetInfo\b.*"
)
# A name beyond these limits is not from a compiler, and stays unchanged.
_MAX_CHARS = 20_000
_MAX_TEMPLATES = 200
_CLOSING = {"<": ">", "(": ")", "{": "}", "[": "]"}


@functools.lru_cache(maxsize=10_000)
def label_of(name: str) -> str:
    """Return the name of a kernel without numbers by order and the noise of templates."""
    generated = _GENERATED.fullmatch(name)
    if generated:
        return generated.group(1)
    name = demangled(name)
    if len(name) > _MAX_CHARS or name.count("<") > _MAX_TEMPLATES:
        return name
    text = _RESULT_TYPE.sub("", _UNNAMED.sub("", name))
    wrapped = _WRAPPER.match(text)
    if wrapped:
        return wrapped.group(1)
    if "<" not in text and ("(" not in text or " (" in text):
        # An operator, a C function without arguments, or "Memcpy HtoD (Pinned -> Device)".
        return text or name
    return _short(text, is_loop="at::native::" in text) or name


def _short(text: str, *, is_loop: bool) -> str:
    """Return one C++ name: its last part and the distinctive parameters."""
    head = _match(_HEAD, text)
    name = head.rpartition("::")[2].strip()
    rest = text[len(head) :]
    if rest.startswith("<"):
        inner, rest = _enclosed(rest)
        if rest.startswith("::") and not rest.startswith(("::operator", "::{")):
            return _short(rest[2:], is_loop=is_loop)
        parameters = [
            _short(part, is_loop=is_loop)
            for part in _parts(inner)
            if not (is_loop and _NOISE.fullmatch(part))
        ]
        labels = _once([part for part in parameters if part])
        return f"{name}<{', '.join(labels)}>" if labels else name
    types = _LAMBDA_TYPES.findall(rest)
    if types:
        labels = _once([_short(part, is_loop=is_loop) for part in _parts(types[-1])])
        return f"{name}<{', '.join(labels)}>"
    return name


def _once(parts: list[str]) -> list[str]:
    """Return the parts, each type once; numbers are tiles and all of them count."""
    return [
        part
        for index, part in enumerate(parts)
        if part not in parts[:index] or part[:1].isdigit() or part in ("true", "false")
    ]


def _match(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match.group() if match else ""


def _enclosed(text: str) -> tuple[str, str]:
    """Return the content of the first bracket and the text after it; all without an end."""
    depth = 0
    for index, sign in enumerate(text):
        if sign in _CLOSING:
            depth += 1
        elif sign in _CLOSING.values():
            depth -= 1
            if depth == 0:
                return text[1:index], text[index + 1 :]
    return text[1:], ""


def _parts(text: str) -> Iterator[str]:
    """Yield the parts that commas outside of brackets separate."""
    depth = begin = 0
    for index, sign in enumerate(text):
        if sign in _CLOSING:
            depth += 1
        elif sign in _CLOSING.values():
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[begin:index].strip()
            begin = index + 1
    yield text[begin:].strip()
