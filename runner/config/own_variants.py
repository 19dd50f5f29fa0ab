"""Variants of hud.toml: `[variants.NAME]` changes a built-in way to execute a model."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from compile_hud.models_zoo.catalog.spec import NO_BACKEND, CompileSettings, Variant, near_names
from compile_hud.models_zoo.catalog.variants import MODES, VARIANTS
from compile_hud.runner.config.setting import Setting
from compile_hud.runner.config.validators import flag, phases, text

# The name of a variant is part of a case's key, in which `/` separates, and of globs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_ALWAYS = ("env", "phases", "summary")
_OF_DYNAMO = ("dynamic", "fullgraph", "options", "mark_dynamic", "sdpa", "nested_compile_region")
_COMPILED_ONLY = (*_OF_DYNAMO, "mode", "inductor")
# The settings that each backend reads besides those of every launch. A function of a module may
# call Inductor itself.
_EFFECTIVE: Mapping[str, tuple[str, ...]] = {
    "inductor": _COMPILED_ONLY,
    "tensorrt": _OF_DYNAMO,
    "aot_inductor": ("inductor", "sdpa", "nested_compile_region"),
    "cuda_graph": ("sdpa",),
    **dict.fromkeys(("eager", NO_BACKEND, "onnxruntime", "openvino"), ()),
}
# These backends of torch ignore their options.
_NO_OPTIONS = re.compile(r"(aot_|pre_dispatch_)?eager.*|aot_ts|ts|cudagraphs|invoke_subgraph")
SDPA = ("math", "flash", "efficient", "cudnn")
# The runner sets these for each launch.
_RUNNERS = re.compile(r"HUD_.*|TMPDIR|TORCHINDUCTOR_CACHE_DIR|PYTHONPATH|PYTHONSAFEPATH")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _options(value: Any) -> Mapping[str, Any]:
    """Return a table of settings; raise ValueError otherwise."""
    if not isinstance(value, dict) or not all(map(_is_option, value.values())):
        raise ValueError(
            "a table of numbers, texts, true or false, and lists of them; names with a dot in"
            ' quotes, such as { max_fusion_size = 32, "triton.cudagraphs" = true }'
        )
    return value


def _is_option(value: Any) -> bool:
    if isinstance(value, list):
        return all(not isinstance(item, list) and _is_option(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int | str)


def _environment(value: Any) -> Mapping[str, str]:
    """Return a table of variables, each a text; raise ValueError otherwise."""
    problem = 'a table of texts, such as { PYTORCH_ALLOC_CONF = "expandable_segments:True" }'
    if not isinstance(value, dict):
        raise ValueError(problem)
    for name, content in value.items():
        if not isinstance(content, str) or _VARIABLE.fullmatch(name) is None or "\0" in content:
            raise ValueError(problem)
        if _RUNNERS.fullmatch(name):
            raise ValueError(f"variables other than {name}, which the runner sets for each launch")
    return value


def _dimensions(value: Any) -> Mapping[str, tuple[int, ...]]:
    """Return the dynamic dimensions by name of an input; raise ValueError otherwise."""
    problem = "a table of inputs, each a list of dimensions, such as { input_ids = [0, 1] }"
    if not isinstance(value, dict):
        raise ValueError(problem)
    for dimensions in value.values():
        if not isinstance(dimensions, list) or not dimensions:
            raise ValueError(problem)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in dimensions):
            raise ValueError(problem)
    return {name: tuple(dimensions) for name, dimensions in value.items()}


def _sdpa(value: Any) -> str:
    """Return the name of an attention; raise ValueError otherwise."""
    if value not in SDPA:
        raise ValueError(f"one of {', '.join(SDPA)}")
    return str(value)


VARIANT_SETTINGS = tuple(
    Setting(section="variants.NAME", key=key, accept=accept, default=default, description=line)
    for key, accept, default, line in (
        ("base", text, "default", "The [variant](#modes) that it changes, built-in or above it."),
        ("mode", text, None, "Mode of torch.compile. Default: that of `base`."),
        (
            "backend",
            text,
            None,
            "A registered backend of torch.compile, or `package.module:function`. Default: that of"
            " `base`.",
        ),
        ("dynamic", flag, None, "torch.compile's `dynamic`."),
        ("fullgraph", flag, None, "torch.compile's `fullgraph`."),
        ("options", _options, None, "torch.compile's `options`, for the backend."),
        (
            "inductor",
            _options,
            None,
            "Settings of `torch._inductor.config`; one that this torch lacks fails the case, with"
            " the nearest name.",
        ),
        (
            "env",
            _environment,
            None,
            "Variables of the launch, for eager too; each launch then imports torch anew. They are"
            " stored with results, so no secrets.",
        ),
        ("mark_dynamic", _dimensions, None, "Dynamic dimensions by name of an input."),
        (
            "sdpa",
            _sdpa,
            None,
            "Attention of compiled code: `math`, `flash`, `efficient` or `cudnn`.",
        ),
        (
            "nested_compile_region",
            flag,
            False,
            "Compile repeated blocks once, as nested regions of one graph.",
        ),
        ("phases", phases, None, "Phases that it is measured in. Default: those of `base`."),
        ("summary", text, None, "What it is, for lists."),
    )
)


class OwnVariantError(ValueError):
    """An invalid variant; `key` is the faulty setting, None for its name."""

    def __init__(self, problem: str, *, key: str | None = None) -> None:
        super().__init__(problem)
        self.key = key


def own_variant(
    name: str,
    values: Mapping[str, Any],
    *,
    known: Mapping[str, Variant],
    source_name: str,
    later: Collection[str] = (),
) -> Variant:
    """Return the variant of a `[variants.NAME]` with `values`; raise OwnVariantError.

    `known` are the variants that it may be based on, `later` those that follow in the file.
    """
    if _NAME.fullmatch(name) is None:
        raise OwnVariantError("a name has letters, digits and . _ + - only")
    if name in VARIANTS:
        raise OwnVariantError(f"{name} is a built-in variant; choose another name")
    base = known.get(values["base"])
    if base is None:
        raise OwnVariantError(_why_no_base(name, values["base"], known, later), key="base")
    is_eager = base.backend in ("eager", NO_BACKEND)
    _check_effects(values, base=base)
    if values["mode"] is not None and values["mode"] not in MODES[1:]:
        raise OwnVariantError(_no_such("mode", values["mode"], MODES[1:]), key="mode")
    changes = {key: values[key] for key in ("mode", "dynamic", "fullgraph", "phases")}
    backend = values["backend"] or (NO_BACKEND if is_eager else base.backend)
    if is_eager and values["backend"] and changes["mode"] is None:
        changes["mode"] = "default"
    return dataclasses.replace(
        base,
        **{key: value for key, value in changes.items() if value is not None},
        name=name,
        backend=backend,
        summary=values["summary"] or f"As {base.name}, with settings of {source_name}.",
        transform=dataclasses.replace(
            base.transform,
            has_nested_regions=values["nested_compile_region"] or base.transform.has_nested_regions,
        ),
        compile=_settings(base.compile, values),
    )


def _why_no_base(name: str, base: str, known: Mapping[str, Variant], later: Collection[str]) -> str:
    if base == name:
        return f"{name} cannot be its own base"
    if base in later:
        return f"{base} is defined below; define it above"
    return _no_such("variant", base, known)


def _check_effects(values: Mapping[str, Any], *, base: Variant) -> None:
    """Raise OwnVariantError for settings that its backend does not read, own or of the base."""
    backend = values["backend"] or base.backend
    effective = _effective(backend)
    # `false` is the default of nested regions, and says something of the others.
    is_set = {
        key: bool(values[key]) if key == "nested_compile_region" else values[key] is not None
        for key in _COMPILED_ONLY
    }
    own = [key for key in _COMPILED_ONLY if is_set[key] and key not in effective]
    inherited = [
        key
        for key, is_changed in (
            ("mode", base.mode not in ("eager", "default")),
            ("dynamic", base.dynamic is not None),
            ("fullgraph", base.fullgraph),
            ("options", base.compile.options),
            ("inductor", base.compile.inductor),
            ("mark_dynamic", base.compile.mark_dynamic),
            ("sdpa", base.compile.sdpa),
            ("nested_compile_region", base.transform.has_nested_regions),
        )
        if is_changed and key not in effective and values["backend"] is not None
    ]
    if not own and not inherited:
        return
    origin = "" if own else f" of {base.name}"
    verb = "has" if len(own or inherited) == 1 else "have"
    raise OwnVariantError(
        f"{' and '.join(own or inherited)}{origin} {verb} no effect with the backend"
        f" {'of eager' if backend == NO_BACKEND else backend};"
        f" {', '.join((*effective, *_ALWAYS))} have. Remove it, or choose another base or backend",
        key=own[0] if own else "backend",
    )


def _effective(backend: str) -> tuple[str, ...]:
    if backend in _EFFECTIVE:
        return _EFFECTIVE[backend]
    if ":" in backend:
        return (*_OF_DYNAMO, "inductor")
    if _NO_OPTIONS.fullmatch(backend):
        return tuple(key for key in _OF_DYNAMO if key != "options")
    return _OF_DYNAMO


def _settings(base: CompileSettings, values: Mapping[str, Any]) -> CompileSettings:
    return CompileSettings(
        options={**base.options, **(values["options"] or {})},
        inductor={**base.inductor, **(values["inductor"] or {})},
        environment={**base.environment, **(values["env"] or {})},
        mark_dynamic={**base.mark_dynamic, **(values["mark_dynamic"] or {})},
        sdpa=values["sdpa"] or base.sdpa,
    )


def _no_such(kind: str, name: str, known: Iterable[str]) -> str:
    near = near_names(name, known)
    return f"no {kind} {name!r}" + (
        f"; did you mean {near}?" if near else f"; there is {', '.join(known)}"
    )
