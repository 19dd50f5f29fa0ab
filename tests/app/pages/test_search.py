"""The search of everything that has a page."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from compile_hud.app.views.search.data import MAX_HITS, Searchable, search, search_words
from compile_hud.db.shared.settings_snapshot import SETTINGS_VARIABLE
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_kernel,
    make_result,
    make_run,
)
from tests.support.pages.page_elements import links_of, text_of, texts_of_rows
from tests.support.records.page_results import latest
from tests.support.stores import dashboard_stores


def known_of(*models: str) -> Searchable:
    cells = [
        latest(make_case(model, mode=mode)) for model in models for mode in ("eager", "default")
    ]
    return Searchable(cells=tuple(cells), alerts=(), runs=())


def test_all_words_must_occur_in_any_case_and_order() -> None:
    groups = search("DEFAULT  vit", known_of("vit", "gpt2"))
    assert [group.kind for group in groups] == ["Cases"]
    assert [hit.text for hit in groups[0].hits] == ["vit/inference/tiny/fp32/default/cpu"]
    assert search("vit nowhere", known_of("vit")) == ()
    assert search_words(" Vit vit\tGPT ") == ("vit", "gpt")


def test_names_that_begin_with_the_word_come_first() -> None:
    (models, _) = search("former", known_of("reformer", "transformer", "former-2"))
    assert [hit.text for hit in models.hits] == ["former-2", "reformer", "transformer"]


def test_many_hits_are_counted_and_the_first_shown() -> None:
    (models, cases) = search("m", known_of(*(f"m{number:02}" for number in range(MAX_HITS + 3))))
    assert (len(models.hits), models.num_hits) == (MAX_HITS, MAX_HITS + 3)
    assert (len(cases.hits), cases.num_hits) == (MAX_HITS, 2 * (MAX_HITS + 3))


def test_an_alert_is_found_by_its_state_and_its_id() -> None:
    alert = make_alert("1edbd61977aa", case=make_case("vit"))
    known = Searchable(cells=(), alerts=(alert,), runs=())
    for text in ("1edbd619", "open vit"):
        (group,) = search(text, known)
        assert [hit.href for hit in group.hits] == ["alerts?alert=1edbd61977aa"]


@pytest.mark.usefixtures("seeded")
def test_the_page_leads_to_models_alerts_cases_runs_and_kernels(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = {
        "section": "search",
        "key": "bert_limit",
        "value": "1",
        "is_set": True,
        "variable": "",
        "description": "",
    }
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps([section]))
    page = open_page("search", text="bert")
    assert not page.exception
    links = links_of(page)
    assert any(link.startswith("model?") and "model=bert" in link for link in links)
    assert "alerts?alert=alert-1" in links
    assert any(link.startswith("series?case=bert") for link in links)
    assert "settings" in links


def test_kernels_of_the_newest_results_are_found(store: Store, open_page: OpenPage) -> None:
    for number, names in enumerate((("triton_mul_old",), ("triton_gelu_7", "mkl_gemm"))):
        run = make_run(f"run-{number}", started_at=START + timedelta(days=number))
        kernels = [make_kernel(name, label=name) for name in names]
        result = make_result(f"result-{number}", run=run, kernels=kernels)
        store.ingest(run, result, spool_id=run.id)
    page = open_page("search", text="GELU triton")
    ((name, case),) = texts_of_rows(page, "kernels")
    assert (name, case) == ("triton_gelu_7", make_case().key)
    assert any(link.startswith("kernels?run=run-1&case=") for link in links_of(page))
    # Kernels of earlier results are in the history of their case.
    assert "Nothing has all" in text_of(open_page("search", text="triton_mul_old"))


@pytest.mark.usefixtures("seeded")
def test_a_search_without_a_hit_says_so_and_hostile_words_are_text(open_page: OpenPage) -> None:
    for text in ("no such thing", "<script>alert(1)</script>", "100%_\\", "'; drop table runs; --"):
        page = open_page("search", text=text)
        assert not page.exception
        assert "Nothing has all of these words" in text_of(page)
    assert dashboard_stores.FAILING.key not in text_of(open_page("search", text="   "))
