"""Documents mention everything, generated parts are current, links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.cli.main import main as hud
from compile_hud.runner.config.schema import SETTINGS
from compile_hud.runner.doctor.machine import COSTS
from compile_hud.runner.planning import time_budget as budget
from compile_hud.runner.planning.suites import BUILTIN_SUITES
from tests.support.sources import ROOT, documents, module_of, text_of

MAX_ADR_LINES = 60
ADR_PARTS = ("Status:", "## Context", "## Decision", "## Consequences", "## Non-goals")
ADRS = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))


def commands(command: click.Command, *, name: str) -> Iterator[tuple[str, click.Command]]:
    """Return every command of the tree that is shown, by its full name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for child_name, child in command.commands.items():
        if not child.hidden:
            yield from commands(child, name=f"{name} {child_name}")


COMMANDS = dict(commands(hud, name="hud"))


GENERATE = module_of("docs/generate.py")


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_in_the_reference(name: str) -> None:
    assert re.search(rf"\b{name}\b", text_of("docs/reference/cli.md"))


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_in_the_reference(name: str) -> None:
    options = [option for option in COMMANDS[name].params if isinstance(option, click.Option)]
    flags = {max(option.opts, key=len) for option in options if not option.hidden}
    assert not {flag for flag in flags if flag not in text_of("docs/reference/cli.md")}


@pytest.mark.parametrize("name", [*documents()])
def test_commands_that_need_test_tools_name_their_environment(name: str) -> None:
    """`make run` installs no tools for tests, such as Playwright."""
    for paragraph in text_of(name).split("\n\n"):
        if "python -m tests." in paragraph or "python -m pytest" in paragraph:
            assert "make install" in paragraph or name == "CONTRIBUTING.md", paragraph


def test_commands_in_the_documents_exist() -> None:
    commands = {name.split()[1] for name in COMMANDS}
    used = {
        (document, word)
        for document in documents()
        for word in re.findall(r"(?:^|`|/)hud ([a-z][a-z-]*)", text_of(document), re.MULTILINE)
    }
    assert not {(document, word) for document, word in used if word not in commands}


@pytest.mark.parametrize("name", METRICS)
def test_metric_is_described(name: str) -> None:
    assert f"`{name}`" in text_of("docs/reference/metrics.md")


@pytest.mark.parametrize("name", CATALOG)
def test_model_is_described(name: str) -> None:
    assert f"`{name}`" in text_of("models_zoo/README.md")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: f"{row.section}.{row.key}")
def test_setting_is_described(row: object) -> None:
    section, key = row.section, row.key  # type: ignore[attr-defined]
    text = text_of("docs/reference/configuration.md")
    assert section.removesuffix(".NAME") in text
    assert key == "*" or f"`{key}`" in text


@pytest.mark.parametrize("name", [*VARIANTS, *BUILTIN_SUITES])
def test_variant_and_suite_are_described(name: str) -> None:
    assert any(f"`{name}`" in text_of(document) for document in documents())


# A page of terms that a reader must learn first is read by none. Standard terms need no entry.
MAX_TERMS = 40


@pytest.mark.parametrize("kind", [Outcome, Verdict, AlertState])
def test_glossary_lists_closed_sets_as_the_code_does(kind: type) -> None:
    members = {str(member) for member in kind}  # type: ignore[var-annotated,attr-defined]
    lists = [
        set(text.split())
        for text in re.findall(r"`([a-z_ ]+)`", text_of("docs/reference/glossary.md"))
    ]
    assert members in lists


def test_glossary_defines_each_term_once() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", text_of("docs/reference/glossary.md"), re.MULTILINE)
    assert 20 < len(terms) <= MAX_TERMS
    assert len(terms) == len(set(terms))


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(document))
    inside = [target for target in targets if "://" not in target]
    folder = (ROOT / document).parent
    assert not [target for target in inside if not (folder / target).exists()]


def test_index_of_the_decisions_has_each_but_the_template() -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)\)", text_of("docs/adr/index.md"))
    assert linked == ADRS


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "explanation" / "studies").glob("*.md")), ids=str
)
def test_page_of_a_study_is_of_a_study_and_names_device_and_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    study = STUDIES[path.stem]
    assert text.startswith(f"# {study.title}\n\n{study.question}\n\nWritten by `hud study page")
    assert text.count("\n## On ") == text.count("\n| device | ") == text.count("\n| command | ") > 0
    assert "SYNTHETIC" not in text


@pytest.mark.parametrize("document", documents())
def test_make_commands_in_the_documents_exist(document: str) -> None:
    used = set(re.findall(r"(?:^|`)make ([a-z]+)", text_of(document), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))
    assert used <= targets


@pytest.mark.parametrize("name", ADRS)
def test_decision_has_its_parts_in_order_and_is_short(name: str) -> None:
    text = text_of(f"docs/adr/{name}")
    places = [text.find(part) for part in ADR_PARTS]
    assert -1 not in places
    assert places == sorted(places)
    assert len(text.splitlines()) <= MAX_ADR_LINES


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(name[:4]) for name in ADRS] == list(range(len(ADRS)))


@pytest.mark.parametrize("document", documents())
def test_generated_parts_are_current(document: str) -> None:
    text = text_of(document)
    assert GENERATE.render(text, source=document) == text


def test_generated_part_is_replaced_and_the_rest_kept() -> None:
    text = "before\n<!-- generated: suites -->\nold\n<!-- end generated -->\nafter\n"
    fresh = GENERATE.render(text, source="a.md")
    assert fresh.startswith("before\n<!-- generated: suites -->\n| suite | meaning |\n")
    assert fresh.endswith("<!-- end generated -->\nafter\n")
    assert "old" not in fresh


def test_unknown_generated_part_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match=r"a\.md: nothing generates 'weather'; known: "):
        GENERATE.render("<!-- generated: weather -->\n<!-- end generated -->", source="a.md")


def test_cells_may_hold_bars() -> None:
    assert "a\\|b" in GENERATE.table(("x",), [("a|b",)])


def test_the_costs_of_doctor_are_those_of_its_document() -> None:
    text = text_of("docs/how-to/doctor.md")
    assert not [name for name, cost in COSTS.items() if f"| `{name}` | {cost} |" not in text]


def test_a_time_budget_weighs_as_its_document_reports() -> None:
    words = " ".join(text_of("docs/reference/configuration.md").split())
    assert f"times {budget.SUSPECT_WEIGHT:g} (`SUSPECT_WEIGHT`)" in words
    assert f"times {budget.TRACKED_WEIGHT:g} (`TRACKED_WEIGHT`)" in words
