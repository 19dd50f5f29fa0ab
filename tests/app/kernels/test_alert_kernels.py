"""The kernels behind an alert on its page, and where its links to kernels lead."""

from __future__ import annotations

import dataclasses

from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.memory.peak import MEMORY_PEAK
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.app.kernels.test_kernel_diff import (
    CASE,
    FUSED,
    GEMM,
    NIGHTS,
    alert_between,
    night,
    result_of,
    save,
    save_two_nights,
)
from tests.support.builders import make_result
from tests.support.pages.page_elements import html_of, links_of, text_of, texts_of, texts_of_rows
from tests.support.records.memory_peaks import MIB, make_holder, make_peak
from tests.support.stores.stored_results import save_alerts


def test_an_alert_names_its_kernels_and_leads_to_each(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store, python_s=0.002)
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    page = open_page("alerts", alert="alert-1")
    rows = texts_of_rows(page, "kernels behind the alert")
    assert ["+800.0", "other code", "cpp_fused_add"] in [row[:3] for row in rows]
    links = [url for url in links_of(page) if url.startswith("kernel-diff?")]
    assert len(links) == len(rows)
    assert all("baseline_run=run-0" in url and "&row=" in url for url in links)
    assert "hud kernels transplant -- alert-1" in text_of(page)


def test_noise_of_a_side_is_reported_on_the_diff_and_on_the_alert(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    slower = dataclasses.replace(FUSED, mean_s=0.0013, total_s=0.0026, min_s=0.0013)
    busy = RunWarning(code="noisy-neighbour", text="other work")
    save(
        store,
        (before, result_of(before, GEMM, FUSED, warnings=[busy])),
        (after, result_of(after, GEMM, slower, latency_s=0.0076)),
    )
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    page = open_page("kernel-diff", **NIGHTS)
    assert texts_of(page, "notice")[-1] == words
    page = open_page("alerts", alert="alert-1")
    assert texts_of(page, "notice")[-1] == words
    assert " +600.0 us " in texts_of(page, "caption")[-2]
    page = open_page("kernels", run="run-0", case=CASE.key)
    assert texts_of(page, "notice")[-1] == words


def test_an_alert_without_kernels_does_not_mention_them(open_page: OpenPage, store: Store) -> None:
    save_two_nights(store)
    save_alerts(store, [alert_between(("run-0", "run-7"))])
    page = open_page("alerts", alert="alert-1")
    assert "Kernel-level cause" not in text_of(page)
    # The first bad run has none that a link could lead to.
    (link,) = [url for url in links_of(page) if url.startswith("kernels?")]
    assert "run=run-0" in link


def test_an_alert_without_a_kernel_beyond_noise_is_explained(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    before, after = night(0), night(1)
    save(store, (before, result_of(before, FUSED)), (after, result_of(after, FUSED)))
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    page = open_page("alerts", alert="alert-1")
    assert texts_of(page, "caption")[-2] == words


def save_two_peaks(store: Store, *, has_kernels: bool) -> None:
    """Store two nights whose memory at the peak differs by one allocation of 3 MiB."""
    planted = make_holder("aten::exp", 3 * MIB, module="layers.0", line="/m/net.py:11")
    product = make_holder("aten::mm", 8 * MIB)
    peaks = (make_peak(product), make_peak(product, planted))
    results = []
    for number, peak in enumerate(peaks):
        run = night(number)
        result = result_of(run, GEMM) if has_kernels else make_result(run=run, case=CASE)
        details = {**result.details, MEMORY_PEAK: peak.to_json()}
        results.append((run, dataclasses.replace(result, id=f"r{number}", details=details)))
    save(store, *results)


def test_an_alert_about_memory_names_the_operator_that_grew(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    save_two_peaks(store, has_kernels=False)
    alert = dataclasses.replace(alert_between(("run-0", "run-1")), metric="peak_bytes")
    save_alerts(store, [alert])
    page = open_page("alerts", alert="alert-1")
    rows = texts_of_rows(page, "changes of memory at the peak")
    assert rows == [["+3.00", "-", "3.00", "aten::exp", "layers.0", "net.py:11", "new"]]
    assert [text for text in texts_of(page, "caption") if "aten::exp" in text] == words


def test_an_alert_about_time_does_not_mention_memory(open_page: OpenPage, store: Store) -> None:
    save_two_peaks(store, has_kernels=False)
    save_alerts(store, [alert_between(("run-0", "run-1"))])
    html = html_of(open_page("alerts", alert="alert-1"))
    assert "aten::exp" not in html


def test_the_diff_of_kernels_lists_the_changes_of_memory(open_page: OpenPage, store: Store) -> None:
    save_two_peaks(store, has_kernels=True)
    page = open_page("kernel-diff", **NIGHTS)
    rows = texts_of_rows(page, "changes of memory at the peak")
    assert [row[3] for row in rows] == ["aten::exp"]
