"""The kernels that Inductor generated in this process: their code, and ranges of their calls.

The profiler does not see a call of a generated C++ kernel: it is a plain function of the module
that Inductor wrote. During `visible_kernels`, each such function runs in a range of its own name.
The profile then shows the sampled code. Inductor's own option (`cpp.enable_kernel_profile`) would
generate other code. Triton kernels are visible without ranges. The location of the modules is an
internal of torch, and only this file uses it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

# Inductor's module defines a kernel as NAME = async_compile.WAY(..., '''CODE'''.
_DEFINITION = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?P<way>\w+)\((?P<head>[^\n]*?)r?'''(?P<text>.*?)'''",
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES: Mapping[str, str] = {"cpp_pybinding": "cpp", "cpp": "cpp", "triton": "triton"}
# A file of megabytes belongs to a model whose code is too long to read.
MAX_FILE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedKernel:
    """The code of one kernel, as Inductor wrote it; `language` is `cpp` or `triton`.

    `index` counts the earlier graphs of the process that have a kernel of this name: each graph
    numbers its kernels from 0.
    """

    name: str
    index: int
    language: str
    text: str

    @property
    def shown_name(self) -> str:
        """Return the name in a trace; for a C++ kernel it includes the graph's number."""
        return (
            f"{self.name}#{self.index + 1}" if self.index and self.language == "cpp" else self.name
        )


def generated_kernels() -> list[GeneratedKernel]:
    """Return the kernels that were generated or loaded in this process, in that order."""
    return [
        GeneratedKernel(
            name=match["name"],
            index=index,
            language=_LANGUAGES[match["way"]],
            text=match["text"].strip("\n"),
        )
        for index, match in _counted(_definitions())
        if match["way"] in _LANGUAGES
    ]


def _definitions() -> Iterator[re.Match[str]]:
    for module in generated_modules():
        yield from _DEFINITION.finditer(module_text(module))


def module_text(module: ModuleType) -> str:
    """Return Inductor's code; empty if it cannot be read, and its kernels are still timed."""
    path = Path(str(module.__file__))
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size < MAX_FILE_BYTES else ""
    except (OSError, ValueError):
        return ""


def _counted(matches: Iterable[re.Match[str]]) -> Iterator[tuple[int, re.Match[str]]]:
    seen: Counter[str] = Counter()
    for match in matches:
        yield seen[match["name"]], match
        seen[match["name"]] += 1


# The arguments of the first call of each kernel, by its name in a trace; see `describe_arguments`.
FirstCalls = dict[str, list[Any]]
# A function that is called before each call of a kernel, with its arguments.
OnKernel = Callable[[GeneratedKernel, Sequence[Any]], None]


@contextmanager
def visible_kernels(*, on_call: OnKernel | None = None) -> Iterator[FirstCalls]:
    """Put each call of a generated C++ kernel into a range of its name during the block.

    Yields the arguments of each kernel's first call, by the names in a trace. They include Triton
    kernels if they are called: the replay of a CUDA graph calls none.
    """
    calls: FirstCalls = {}
    seen: Counter[str] = Counter()
    with ExitStack() as shown:
        for module in generated_modules():
            for name, function in list(vars(module).items()):
                language = _language(name, function)
                if not language:
                    continue
                kernel = GeneratedKernel(name=name, index=seen[name], language=language, text="")
                seen[name] += 1
                look = _look_of(kernel, calls=calls, on_call=on_call)
                if language == "cpp":
                    show = _with_range(kernel.shown_name, function, look=look)
                    shown.enter_context(replaced(module, name, show))
                else:
                    run = _with_look(function.run, look=look)
                    shown.enter_context(replaced(function, "run", run))
        yield calls


def register_spills() -> dict[str, int]:
    """Return the register spills of each Triton kernel by its name in a trace, as far as known.

    Inductor leaves one launcher of a kernel after autotuning; of several none is the chosen one.
    """
    spills: dict[str, int] = {}
    for module in generated_modules():
        for name, function in vars(module).items():
            launchers = getattr(function, "launchers", None)
            if _language(name, function) != "triton" or not isinstance(launchers, list):
                continue
            number = getattr(launchers[0], "n_spills", None) if len(launchers) == 1 else None
            if isinstance(number, int):
                # Graphs number their kernels alike, and a trace cannot tell these apart.
                spills[name] = max(number, spills.get(name, 0))
    return spills


def _language(name: str, function: Any) -> str:
    """Return the language of the kernel `name` in a module, empty if it is no kernel."""
    if name.startswith("cpp_") and callable(function):
        return "cpp"
    return "triton" if name.startswith("triton_") and hasattr(function, "run") else ""


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set `name` of `owner` to `value` during the block."""
    hidden = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if hidden is None:
            delattr(owner, name)
        else:
            setattr(owner, name, hidden)


@contextmanager
def wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the attribute `name` of `owner`, if it exists, with `wrap` of it during the block."""
    method = getattr(owner, name, None)
    with nullcontext() if method is None else replaced(owner, name, wrap(method)):
        yield


def _look_of(
    kernel: GeneratedKernel, *, calls: FirstCalls, on_call: OnKernel | None
) -> Callable[[Sequence[Any]], None]:
    name = kernel.shown_name

    def look(arguments: Sequence[Any]) -> None:
        if name not in calls:
            calls[name] = describe_arguments(arguments)
        if on_call is not None:
            on_call(kernel, arguments)

    return look


def _with_range(
    name: str, function: Callable[..., Any], *, look: Callable[[Sequence[Any]], None]
) -> Callable[..., Any]:
    range_of = range_maker()

    def show(*arguments: Any) -> Any:
        look(arguments)
        with range_of(name):
            return function(*arguments)

    return show


def _with_look(
    run: Callable[..., Any], *, look: Callable[[Sequence[Any]], None]
) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        look(arguments)
        return run(*arguments, **options)

    return call


def range_maker() -> Callable[[str], Any]:
    """Return the maker of ranges; torch's fast one costs a tenth of the public one."""
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    return torch.profiler.record_function if fast is None else fast


def generated_modules() -> list[ModuleType]:
    """Return the modules that Inductor wrote with calls of kernels; none if torch hides them."""
    from torch._inductor.codecache import PyCodeCache

    modules = getattr(PyCodeCache, "modules", ())
    return [
        module
        for module in modules
        if isinstance(module, ModuleType)
        and hasattr(module, "call")
        and getattr(module, "__file__", None)
    ]


def describe_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of one call in their order, as JSON values.

    A tensor is its `dtype`, `sizes` and `strides`, or `same_as` with the index of the argument that
    starts at the same address. A number is itself; any other value is its `type`.
    """
    places: dict[int, int] = {}
    descriptions: list[Any] = []
    for index, argument in enumerate(arguments):
        if isinstance(argument, torch.Tensor):
            # An empty tensor has no address, which many share.
            first = places.setdefault(argument.data_ptr(), index) if argument.numel() else index
            descriptions.append(_tensor(argument) if first == index else {"same_as": first})
        elif isinstance(argument, (bool, int)) or _is_finite(argument):
            descriptions.append(argument)
        else:
            descriptions.append({"type": type(argument).__name__})
    return descriptions


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sizes": list(tensor.shape),
        "strides": list(tensor.stride()),
    }


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
