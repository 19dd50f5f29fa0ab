"""The runner of a benchmark record: its machine, its device and its environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.runner.files.nesting import is_nested_too_deeply
from compile_hud.runner.interop.importers.vocabulary import DEVICES, UNKNOWN, clean_part

# Such a type of a runner is its operating system, and its name is the device: a phone.
_OPERATING_SYSTEM = re.compile(
    r"(ios|ipados|android|mac ?os( x)?|windows( server)?|linux|ubuntu|debian|harmonyos|visionos)"
    r"( (version |api )?[\d.]+( lts)?)?",
    re.IGNORECASE,
)


def runner_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first runner of `record`, {} without one."""
    runners = get_list(record, "runners")
    return runners[0] if runners and isinstance(runners[0], dict) else {}


def machine_type(runner: Mapping[str, Any]) -> str:
    """Return the type of `runner`, empty where it is an operating system."""
    text = _text(runner.get("type"))
    return "" if _OPERATING_SYSTEM.fullmatch(text) and _text(runner.get("name")) else text


def arch_of(benchmark: Mapping[str, Any]) -> str:
    """Return the device's name where a benchmark states it: its records may have no runner."""
    return _text(get_mapping(benchmark, "extra_info").get("arch"))


def environment_facts(
    record: Mapping[str, Any], runner: Mapping[str, Any], *, machine: str
) -> dict[str, Any]:
    """Return the facts of the environment, by our names; `machine` replaces the runner's type."""
    about = get_mapping(runner, "extra_info")
    facts = _json_object(_text(about.get("environment")))
    if not facts:
        names = {"cpu_model": "cpu_info", "num_cpus": "cpu_count"}
        facts = {name: runner[key] for name, key in names.items() if runner.get(key)}
        has_type = bool(_text(runner.get("type")))
        facts["device_name"] = _text(runner.get("gpu_info")) or (machine if has_type else "")
        if count := runner.get("gpu_count"):
            facts["flags"] = {"num_gpus": count}
    dependencies = get_mapping(record, "dependencies")
    versions = {name: _version(item) for name, item in dependencies.items()}
    return {**facts, "dependencies": versions} if versions else facts


def _version(dependency: Any) -> str:
    if not isinstance(dependency, dict):
        return _text(dependency)
    return _text(dependency.get("version")) or _text(dependency.get("sha"))


def _json_object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    # A text in a record can hold a document of any depth.
    is_usable = isinstance(document, dict) and not is_nested_too_deeply(document)
    return document if is_usable else {}


def device_of(record: Mapping[str, Any], about: Mapping[str, Any], *, has_machine: bool) -> str:
    """Return the kind of device, else the first name of one; `has_machine` if the user named it."""
    runner = runner_of(record)
    texts = [_text(text) for text in (runner.get("type"), runner.get("name"), about.get("device"))]
    # A name near to the case is more reliable: a machine may have any name.
    kinds = [text.lower() for text in reversed(texts) if text.lower() in DEVICES]
    if has_machine:
        # The given machine replaces name and type of a runner here as well.
        del texts[:2]
    return kinds[0] if kinds else clean_part(next((text for text in texts if text), UNKNOWN))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
