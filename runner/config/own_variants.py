"""Variants of hud.toml: `[variants.NAME]` changes a built-in way to execute a model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from compile_hud.models_zoo.catalog.spec import NO_BACKEND, CompileSettings, Variant
from compile_hud.models_zoo.catalog.variants import MODES, VARIANTS
from compile_hud.runner.config.section import ConfigSection, SectionError, check_name
from compile_hud.runner.config.value_types import Flag, Phases, Scalar, Text, one_of, takes

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


def _not_of_the_runner(variables: dict[str, str]) -> dict[str, str]:
    for name in variables:
        if _RUNNERS.fullmatch(name):
            raise ValueError(f"variables other than {name}, which the runner sets for each launch")
    return variables


Options = Annotated[
    dict[str, Scalar | list[Scalar]],
    takes(
        "a table of numbers, texts, true or false, and lists of them; names with a dot in quotes,"
        ' such as { max_fusion_size = 32, "triton.cudagraphs" = true }'
    ),
]
Environment = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
        Annotated[str, Field(pattern=r"^[^\x00]*$")],
    ],
    takes('a table of texts, such as { PYTORCH_ALLOC_CONF = "expandable_segments:True" }'),
    AfterValidator(_not_of_the_runner),
]
Dimensions = Annotated[
    dict[str, Annotated[tuple[int, ...], Field(strict=False, min_length=1)]],
    takes("a table of inputs, each a list of dimensions, such as { input_ids = [0, 1] }"),
]


class VariantSection(ConfigSection):
    base: Text = Field(
        "default", description="The variant that it changes: built-in, or one above it."
    )
    mode: Text | None = Field(None, description="Mode of torch.compile. Default: that of `base`.")
    backend: Text | None = Field(
        None,
        description="A registered backend of torch.compile, or `package.module:function`. Default:"
        " that of `base`.",
    )
    dynamic: Flag | None = Field(None, description="torch.compile's `dynamic`.")
    fullgraph: Flag | None = Field(None, description="torch.compile's `fullgraph`.")
    options: Options | None = Field(None, description="torch.compile's `options`, for the backend.")
    inductor: Options | None = Field(
        None,
        description="Settings of `torch._inductor.config`; one that this torch lacks fails the"
        " case, with the nearest name.",
    )
    env: Environment | None = Field(
        None,
        description="Variables of the launch, for eager too; each launch then imports torch anew."
        " They are stored with results, so no secrets.",
    )
    mark_dynamic: Dimensions | None = Field(
        None, description="Dynamic dimensions by name of an input."
    )
    sdpa: Annotated[str, one_of(SDPA)] | None = Field(
        None, description="Attention of compiled code: `math`, `flash`, `efficient` or `cudnn`."
    )
    nested_compile_region: Flag = Field(
        False, description="Compile repeated blocks once, as nested regions of one graph."
    )
    phases: Phases | None = Field(
        None, description="Phases that it is measured in. Default: those of `base`."
    )
    summary: Text | None = Field(None, description="What it is, for lists.")


def own_variant(
    name: str,
    section: VariantSection,
    *,
    known: Mapping[str, Variant],
    source_name: str,
    later: Collection[str] = (),
) -> Variant:
    """Return the variant of a `[variants.NAME]`; raise SectionError.

    `known` are the variants that it may be based on, `later` those that follow in the file.
    """
    if _NAME.fullmatch(name) is None:
        raise SectionError("a name has letters, digits and . _ + - only")
    if name in VARIANTS:
        raise SectionError(f"{name} is a built-in variant; choose another name")
    if section.base == name:
        raise SectionError(f"{name} cannot be its own base", key="base")
    if section.base in later and section.base not in known:
        raise SectionError(f"{section.base} is defined below; define it above", key="base")
    check_name("variant", section.base, known, key="base")
    base = known[section.base]
    is_eager = base.backend in ("eager", NO_BACKEND)
    _check_effects(section, base=base)
    if section.mode is not None:
        check_name("mode", section.mode, MODES[1:])
    changes = {key: getattr(section, key) for key in ("mode", "dynamic", "fullgraph", "phases")}
    backend = section.backend or (NO_BACKEND if is_eager else base.backend)
    if is_eager and section.backend and changes["mode"] is None:
        changes["mode"] = "default"
    return dataclasses.replace(
        base,
        **{key: value for key, value in changes.items() if value is not None},
        name=name,
        backend=backend,
        summary=section.summary or f"As {base.name}, with settings of {source_name}.",
        transform=dataclasses.replace(
            base.transform,
            has_nested_regions=section.nested_compile_region or base.transform.has_nested_regions,
        ),
        compile=_settings(base.compile, section),
    )


def _check_effects(section: VariantSection, *, base: Variant) -> None:
    """Raise SectionError for settings that its backend does not read, own or of the base."""
    backend = section.backend or base.backend
    effective = _effective(backend)
    own = [
        key
        for key in _COMPILED_ONLY
        if key not in effective
        and getattr(section, key) != VariantSection.model_fields[key].default
    ]
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
        if is_changed and key not in effective and section.backend is not None
    ]
    if not own and not inherited:
        return
    origin = "" if own else f" of {base.name}"
    verb = "has" if len(own or inherited) == 1 else "have"
    raise SectionError(
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


def _settings(base: CompileSettings, section: VariantSection) -> CompileSettings:
    return CompileSettings(
        options={**base.options, **(section.options or {})},
        inductor={**base.inductor, **(section.inductor or {})},
        environment={**base.environment, **(section.env or {})},
        mark_dynamic={**base.mark_dynamic, **(section.mark_dynamic or {})},
        sdpa=section.sdpa or base.sdpa,
    )
