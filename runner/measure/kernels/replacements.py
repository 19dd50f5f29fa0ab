"""Kernels of another build instead of this build's own.

Inductor's modules define each kernel by a call of `AsyncCompile`, in a cold compilation as with a
filled cache. While `transplanted_kernels` is active, such a call with the code of a transplant
compiles the other code instead, with Inductor's own flags. Everything else of the build stays as it
is: its graph, its memory, its order of calls. transplant_checks.py then looks whether it runs. The
functions are internals of torch; only this file replaces them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from compile_hud.runner.measure.kernels.generated_code import wrapped
from compile_hud.runner.protocol.transplants import KernelTransplant

# The line of Inductor's Triton code with the sizes that its autotuner looks choices up by.
_SIZE_HINTS = re.compile(r"size_hints=(\{[^\n]*?\}),")
_JIT = "@triton.jit\n"


class TransplantError(RuntimeError):
    """A kernel of another build cannot replace this build's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A definition that was replaced; `kernel` and `own` are functions, or futures of them.

    `own` is the build's kernel, None unless it is to be compared.
    """

    transplant: KernelTransplant
    kernel: Any
    own: Any = None


@contextmanager
def transplanted_kernels(
    transplants: Sequence[KernelTransplant],
    replacements: list[Replacement],
    *,
    keeps_own: bool,
) -> Iterator[None]:
    """Compile the code of `transplants` instead of the build's own during the block.

    Adds what was replaced to `replacements`. With `keeps_own` the build's own code is compiled too.
    """
    if not transplants:
        yield
        return
    # The import is here, since other launches do without.
    from torch._inductor.async_compile import AsyncCompile

    known = {_without_name(item.own_source, item.name): item for item in transplants}

    def replace(
        define: Callable[..., Any], text: str, make: Callable[..., Any], *, name: str = ""
    ) -> Any:
        """Return the kernel of `make`, or of `define`, which gets the code of the build."""
        item = known.get(_without_name(text, name))
        if item is None:
            return define()
        own = define() if keeps_own else None
        kernel = make(item)
        replacements.append(Replacement(transplant=item, kernel=kernel, own=own))
        return kernel

    with (
        wrapped(AsyncCompile, "cpp_pybinding", functools.partial(_with_cpp, replace=replace)),
        wrapped(AsyncCompile, "triton", functools.partial(_with_triton, replace=replace)),
    ):
        yield


def _without_name(text: str, name: str) -> str:
    """Return code without the name that Inductor numbers by order; C++ code has none."""
    text = text.strip("\n")
    return re.sub(rf"\b{re.escape(name)}\b", "", text) if name else text


def _with_cpp(define: Callable[..., Any], *, replace: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(define)
    def cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> Any:
        def make(item: KernelTransplant) -> Any:
            with _vectors(item.vector_isa):
                return define(self, argtypes, f"\n{item.source}\n")

        return replace(lambda: define(self, argtypes, source_code), source_code, make)

    return cpp_pybinding


def _with_triton(define: Callable[..., Any], *, replace: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(define)
    def triton(self: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
        def make(item: KernelTransplant) -> Any:
            name = re.escape(item.source_name)
            text = re.sub(rf"\b{name}\b", kernel_name, f"\n{item.source}\n")
            with _choice(item, text):
                return define(self, kernel_name, text, device_str)

        def own() -> Any:
            return define(self, kernel_name, source_code, device_str)

        return replace(own, source_code, make, name=kernel_name)

    return triton


@contextmanager
def _vectors(name: str) -> Iterator[None]:
    """Let Inductor compile for the vector instructions `name`; raise TransplantError."""
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa, valid_vec_isa_list

    if name == picked_vectors():
        yield
        return
    widths = {str(isa): isa.bit_width() for isa in valid_vec_isa_list()}
    with config.patch({"cpp.simdlen": widths.get(name, 0)}):
        if name != picked_vectors():
            has = ", ".join(widths) or "none"
            raise TransplantError(
                f"the code is for {name or 'no vectors'}, and Inductor picks"
                f" {pick_vec_isa()} here (this machine has {has})"
            )
        yield


def picked_vectors() -> str:
    """Return Inductor's name of the vector instructions that it compiles for, "" for none."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa = pick_vec_isa()
    return str(isa) if isa else ""


@contextmanager
def recorded_vectors(vector_isas: dict[str, str]) -> Iterator[None]:
    """Add the vector instructions of C++ code to `vector_isas`, by the code, during the block."""
    from torch._inductor.async_compile import AsyncCompile

    watch = functools.partial(_watching_vectors, vector_isas=vector_isas)
    with wrapped(AsyncCompile, "cpp_pybinding", watch):
        yield


def _watching_vectors(
    define: Callable[..., Any], *, vector_isas: dict[str, str]
) -> Callable[..., Any]:
    @functools.wraps(define)
    def cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> Any:
        # A fact that is missing must not fail a compilation.
        with suppress(Exception):
            vector_isas[source_code.strip("\n")] = picked_vectors()
        return define(self, argtypes, source_code)

    return cpp_pybinding


@contextmanager
def _choice(item: KernelTransplant, text: str) -> Iterator[None]:
    """Let the autotuner take the configuration of `item` for the code `text`, if it has one."""
    if not item.config:
        yield
        return
    from torch._inductor import config
    from torch._inductor.runtime.triton_heuristics import generate_lookup_hash_from_source_code

    sizes = _SIZE_HINTS.search(text)
    if sizes is None or _JIT not in text:
        raise TransplantError(f"the code of {item.name} names no sizes to look a choice up by")
    key = generate_lookup_hash_from_source_code(sizes[1], text.split(_JIT)[1])
    with config.patch({"autotune_lookup_table": {key: dict(item.config)}}):
        yield
