"""Equality and likeness of the code of two generated kernels.

Code is compared without irrelevant parts: the kernel's own name, comments, and the paths and the
hash of the toolchain that Inductor writes into it. The autotuner's choices (`num_warps`, block
sizes) can be removed as well, which distinguishes another configuration from other code. Likeness
is Dice's coefficient over pairs of adjacent tokens, 2 |A and B| / (|A| + |B|): 1 for equal code,
and symmetric, which difflib's ratio is not. Numbers that the compiler assigns by order (`tmp12`)
count as one token each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

# Inductor writes a kernel's name into its code, and the hash of the toolchain, which is another one
# each night.
_OWN_NAME = re.compile(r"\b(?:graph_\d+_)?(?:triton|cpp)_\w*_\d+_?\b")
_VOLATILE = re.compile(r"'(?:backend_hash|kernel_name|kernel_num_gb|kernel_flop)': [^,}]+,?")
# A range for the profiler, comments, and the path of a header in the cache directory.
_SILENT_LINE = re.compile(r"^.*(?:RecordFunction|RECORD_FUNCTION).*$|^\s*(?:#(?!\w)|//).*$", re.M)
_HEADER_PATH = re.compile(r'#include\s+[<"].*?([\w.]+)[>"]')
_CHOSEN = re.compile(
    r"\b(?P<name>[A-Z][A-Z0-9_]*)\s*:\s*tl\.constexpr\s*=\s*(?P<value>[\w.'\"]+)"
    r"|\b(?P<option>num_warps|num_stages|num_consumer_groups)\s*=\s*(?P<number>\d+)"
    # Inductor's C++ GEMM templates have these by M, N and K: the size of a register block, and the
    # number of these blocks for a thread and a cache. Dynamic sizes are computed at run time.
    r"|\bconstexpr int64_t (?P<block>[MNK](?:r|[tc]_blocks)) = (?P<size>\d+);"
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|[^\s\w]")
_NUMBERED = re.compile(r"^(tmp|buf|in_ptr|out_ptr|in_out_ptr|x|r|y|z)\d+(_\d+)?$")
# The code of a kernel begins here; the lines above are equal in all kernels of a language.
_BEGINNING = re.compile(r"^(?:def |extern \"C\")", re.M)

# The counts of adjacent token pairs in a kernel.
Pairs = Mapping[tuple[str, str], int]


def plain_code(text: str) -> str:
    """Return `text` without differences between two builds of the very same kernel."""
    text = _OWN_NAME.sub("kernel", _SILENT_LINE.sub("", text))
    text = _HEADER_PATH.sub(r"#include \1", _VOLATILE.sub("", text))
    return "\n".join(line for line in map(str.rstrip, text.splitlines()) if line)


def without_choices(code: str) -> str:
    """Return `code` with a blank for each number that an autotuner chooses."""
    return _CHOSEN.sub(lambda match: f"{_choice(match)[0]}=?", code)


def choices_of(code: str) -> dict[str, str]:
    """Return the numbers in `code` that an autotuner chooses, by name."""
    return dict(map(_choice, _CHOSEN.finditer(code)))


def _choice(match: re.Match[str]) -> tuple[str, str]:
    """Return the name of a choice, and its value."""
    if match["name"]:
        return match["name"], match["value"]
    return match["option"] or match["block"], match["number"] or match["size"]


# The cache has twice the number of kernels that a rule of the diff compares, of both sides.
@lru_cache(maxsize=600)
def token_pairs(code: str) -> Pairs:
    """Return the counts of adjacent tokens in the body of `code`."""
    start = _BEGINNING.search(code)
    body = code[start.start() :] if start else code
    tokens = list(map(_unnumbered, _TOKEN.findall(body)))
    return Counter(zip(tokens, tokens[1:], strict=False))


# Generated code has few different tokens.
@lru_cache(maxsize=4096)
def _unnumbered(token: str) -> str:
    return _NUMBERED.sub(r"\1", token)


def likeness(one: Pairs, other: Pairs) -> float:
    """Return the likeness of the token pairs of two kernels: 1 equal, 0 nothing in common."""
    total = sum(one.values()) + sum(other.values())
    if not total:
        return 1.0
    few, many = sorted((one, other), key=len)
    common = few.keys() & many.keys()
    return 2 * sum(min(few[pair], many[pair]) for pair in common) / total
