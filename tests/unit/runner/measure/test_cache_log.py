"""Each miss and bypass of a compile cache has a reason, its permanence and a remedy."""

from __future__ import annotations

import logging

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.measure.compile.cache_log import (
    LOGGERS,
    MAX_PARTS,
    CacheLog,
    recorded_texts,
    remedy_for,
)

INDUCTOR_LOG, AOT_LOG = LOGGERS
PARTS = ["[aa] gm: def forward(x):\n    return x * 3", "[bb] config[max]: 5", "[cc] torch: 2.13"]


def missed(key: str, *lines: str) -> CacheLog:
    """Return the log of a launch that missed the graph cache with this key."""
    log = CacheLog()
    log.record_event("fx_graph_cache_miss", {"key": key, "components": list(lines)})
    return log


def reason_after(first: CacheLog, log: CacheLog) -> str:
    (reason,) = log.reasons({"fxgraph_misses": 1}, first=first.missed)
    assert (reason.cache, reason.event, reason.is_permanent) == ("fxgraph", "miss", False)
    return reason.reason


def test_a_bypass_has_the_reason_of_torchs_log_and_is_permanent(
    words: SnapshotAssertion,
) -> None:
    log = CacheLog()
    log.record_text("fxgraph", "Bypassing FX Graph Cache because 'Unsupported post grad\n pass'")
    log.record_text("aotautograd", "Bypassing autograd cache due to: Unsupported node op x")
    log.record_text("aotautograd", "Bypassing autograd cache due to: Unsupported node op x")
    log.record_text("fxgraph", "fx graph cache hit for key abc")
    reasons = log.reasons({"fxgraph_bypasses": 2, "aotautograd_bypasses": 1}, first={})
    assert [(item.cache, item.reason) for item in reasons] == words
    assert all(item.is_permanent and item.event == "bypass" for item in reasons)


def test_a_text_without_its_event_in_the_counters_is_no_reason() -> None:
    log = missed("k2", *PARTS)
    log.record_text("fxgraph", "Bypassing FX Graph Cache because 'x'")
    assert log.reasons({"fxgraph_hits": 3, "aotautograd_misses": 0}, first={}) == []


def test_a_bypass_whose_reason_torch_hides_says_so() -> None:
    (reason,) = CacheLog().reasons({"fxgraph_bypasses": 1}, first={})
    assert reason.reason == "no reason given"


def test_a_miss_names_the_part_of_the_key_that_differs(words: SnapshotAssertion) -> None:
    lines = ["[dd] gm: def forward(x):\n    return x * 4", *PARTS[1:]]
    assert reason_after(missed("k1", *PARTS), missed("k2", *lines)) == words


def test_a_part_that_only_looks_different_is_not_named() -> None:
    first = missed("k1", "[aa] fn: <function f at 0x1>", "[bb] config[max]: 5")
    later = missed("k2", "[aa] fn: <function f at 0x2>", "[xx] config[max]: 6", "[yy] extra: 1")
    text = reason_after(first, later)
    assert "fn" not in text
    assert text.endswith("config[max]: 5 -> 6; extra: new")


def test_a_key_is_compared_with_the_most_similar_of_the_first_launch() -> None:
    first = missed("k1", "[11] gm: a", "[22] size: 1")
    first.record_event(
        "fx_graph_cache_miss", {"key": "k0", "components": ["[77] gm: b", "[22] size: 1"]}
    )
    later = missed("k2", "[77] gm: b", "[99] size: 2")
    text = reason_after(first, later)
    assert "gm" not in text
    assert text.endswith("size: 1 -> 2")


def test_many_differing_parts_are_cut_short() -> None:
    first = missed("k1", *(f"[a{number}] part{number}: 1" for number in range(6)))
    later = missed("k2", *(f"[b{number}] part{number}: 2" for number in range(6)))
    assert reason_after(first, later).endswith(f"; {6 - MAX_PARTS} more")


def test_a_miss_without_anything_to_compare_says_what_is_known() -> None:
    assert "not known" in reason_after(CacheLog(), missed("k2", *PARTS))
    assert "wrote no entry" in reason_after(missed("k1", *PARTS), missed("k1", *PARTS))
    assert "lists no parts" in reason_after(missed("k1", *PARTS), missed("k2"))


def test_an_entry_with_other_guards_is_not_called_a_change_of_the_key() -> None:
    log = CacheLog()
    log.record_event("autograd_cache_miss", {"key": "", "cache_status_detailed": "guard_miss"})
    first, *_ = log.reasons({"aotautograd_misses": 1}, first={})
    assert "guards on sizes" in first.reason
    assert "dynamic" in first.remedy


def test_a_miss_is_permanent_when_the_entry_cannot_be_written() -> None:
    log = missed("k1", *PARTS)
    log.record_text("fxgraph", "fx graph cache unable to serialize compiled graph")
    (reason,) = log.reasons({"fxgraph_misses": 1}, first=log.missed)
    assert reason.is_permanent
    assert "pickle" in reason.remedy


def test_other_events_are_ignored() -> None:
    log = CacheLog()
    for name in ("fx_graph_cache_hit", "autograd_cache_bypass", "compile_file"):
        log.record_event(name, {"key": "k", "components": ["[a] b: c"]})
    assert log == CacheLog()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Unsupported post grad custom pass", "uuid"),
        ("Can't cache HigherOrderOperator: flex_attention", "operator"),
        ("Unsupported call_function target <function f>", "custom_op"),
        ("Failed to pickle cache key", "pickle"),
        ("Skipping graph with frozen constants", "AOTInductor"),
        ("FX graph cache is not enabled", "FORCE_DISABLE_CACHES"),
        ("something new in this torch", "TORCH_LOGS"),
    ],
)
def test_each_known_reason_has_its_remedy(text: str, word: str) -> None:
    assert word in remedy_for(text)


def test_lines_are_recorded_below_the_level_of_the_log_and_stay_hidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, warning = CacheLog(), "cache unable to write"
    logger = logging.getLogger(INDUCTOR_LOG)
    level = logger.level
    with recorded_texts(log):
        logger.info("Bypassing FX Graph Cache because '%s'", "reason A")
        logging.getLogger(AOT_LOG).info("Bypassing autograd cache due to: %s", "reason B")
        logger.warning(warning)
    assert log.bypasses == {"fxgraph": ["reason A"], "aotautograd": ["reason B"]}
    assert log.unwritten == {"fxgraph": [warning]}
    assert caplog.messages == [warning]
    assert (logger.level, logger.filters) == (level, [])
