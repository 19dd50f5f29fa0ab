"""The names of the files that PyTorch's `benchmarks/dynamo` writes: they carry the configuration.

`{backend}_{config}_{suite}_{dtype}_{mode}_{device}_{performance|accuracy}.csv`; files of expected
values lack some of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# No file name is longer; the pattern is also applied to fields of records.
_MAX_LENGTH = 255
SUITES = ("torchbench", "huggingface", "timm_models", "timm")
_DTYPE = r"float32|float16|bfloat16|amp_bf16|amp_fp16|amp|fp32|fp16|bf16"
_NAME = re.compile(
    rf"(?:(?P<mode>.+?)_)?(?P<suite>{'|'.join(SUITES)})"
    r"(?:_(?P<extra>[a-z0-9]+(?:_[a-z0-9]+)*?))??"
    rf"(?:_(?P<dtype>{_DTYPE}))?"
    r"(?:_(?P<phase>inference|training))?"
    r"(?:_(?P<device>cuda|cpu|rocm|xpu|mps|hpu)(?P<hardware>(?:_[a-z0-9]+)*?))?"
    r"(?:_(?P<test>performance|accuracy))?\.(?:csv|json)(?:\.gz)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoName:
    """The parts of a file name; a missing part is empty.

    `hardware` follows the device: `x86_zen` in `cpu_x86_zen`.
    """

    mode: str
    suite: str
    dtype: str
    phase: str
    device: str
    hardware: str = ""


def parse_name(name: str) -> DynamoName | None:
    """Return the parts of the file `name`, None if it has another form."""
    match = _NAME.fullmatch(name) if len(name) <= _MAX_LENGTH else None
    if match is None:
        return None
    groups = {key: value or "" for key, value in match.groupdict().items()}
    mode = "_".join(part for part in (groups["mode"], groups["extra"]) if part)
    return DynamoName(
        mode=mode,
        suite=groups["suite"],
        dtype=groups["dtype"],
        phase=groups["phase"],
        device=groups["device"],
        hardware=groups["hardware"].removeprefix("_"),
    )
