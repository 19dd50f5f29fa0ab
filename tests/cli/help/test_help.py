"""The help of `hud` and of its commands."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import click
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.main import COMMANDS, main
from compile_hud.runner.planning.suites import BUILTIN_SUITES
from tests.support.sources import python_files, tree_of
from tests.support.terminal import Terminal

WIDTH = 80
SECTIONS = ["Measure", "Look", "Judge", "Share", "Operate"]
# The longest command that a shell of this width shows on a line behind its prompt.
LONGEST_EXAMPLE = 76
# A model of the user's own repository.
OWN_MODEL = "ranker"
NAMES = {
    "--model": (*CATALOG, OWN_MODEL),
    "--mode": tuple(VARIANTS),
    "--suite": tuple(BUILTIN_SUITES),
}
# A shell runs it whenever it starts, in a folder with broken settings too.
WITHOUT_SETTINGS = {("completion",)}
# The name of a type says nothing about a value.
TYPE_NAME = re.compile(r"\b(RANGE|FLOAT|INTEGER|TEXT|BOOLEAN|FILENAME|DIRECTORY)\b")
# Click writes a default of text in brackets of its own, and a float with `.0`.
COMPUTED_DEFAULT = re.compile(r"default: (\(|\[|<|[0-9]+\.0\b)")
FILE = re.compile(r"[\w.-]+\.(json|json\.gz|csv|log|zip|backup)")


def every_command(
    group: click.Group, *, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for child_name, child in group.commands.items():
        if isinstance(child, click.Group):
            yield from every_command(child, name=(*name, child_name))
        else:
            yield (*name, child_name), child


LEAVES = dict(every_command(main))
GROUPS = [(), *sorted({name[:-1] for name in LEAVES if len(name) > 1})]
EXAMPLES = [
    (name, line)
    for name, command in LEAVES.items()
    if isinstance(command, ExampleCommand)
    for line in command.examples
]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return Terminal(tmp_path)


def test_help_lists_the_commands_by_section(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("--help")
    assert result.exit_code == 0
    assert result.output == words


def test_each_command_is_in_one_section(terminal: Terminal) -> None:
    assert list(dict.fromkeys(row.section for row in COMMANDS)) == SECTIONS
    lines = terminal.hud("--help").output.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("Measure:") :] if line[:2] == "  "]
    assert sorted(listed) == sorted(row.name for row in COMMANDS)


@pytest.mark.parametrize("name", GROUPS, ids=" ".join)
def test_no_summary_is_cut(terminal: Terminal, name: tuple[str, ...]) -> None:
    result = terminal.hud(*name, "--help")
    lines = result.output.splitlines()
    names = {leaf[len(name)] for leaf in LEAVES if leaf[: len(name)] == name}
    summaries = [line for line in lines if line[:2] == "  " and line.split()[0] in names]
    assert len(summaries) == len(names)
    assert [line for line in summaries if not line.endswith(".") or line.endswith("...")] == []
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_every_command_has_help_store_and_config(terminal: Terminal, name: tuple[str, ...]) -> None:
    result = terminal.hud(*name, "--help")
    assert result.exit_code == 0
    has_settings = name not in WITHOUT_SETTINGS
    assert ("--store URL" in result.output) is has_settings
    assert ("--config FILE" in result.output) is has_settings
    assert terminal.hud(*name, "-h").output == result.output


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_every_command_has_examples_at_the_end_of_its_help(
    terminal: Terminal, name: tuple[str, ...]
) -> None:
    command = LEAVES[name]
    assert isinstance(command, ExampleCommand)
    assert 1 <= len(command.examples) <= 4
    lines = terminal.hud(*name, "--help").output.splitlines()
    at = lines.index("Examples:")
    assert lines[at + 1 :] == [f"  {line}" for line in command.examples]
    assert max(map(len, command.examples)) <= LONGEST_EXAMPLE


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_options_show_readable_values(name: tuple[str, ...]) -> None:
    context = click.Context(LEAVES[name], info_name=" ".join(("hud", *name)))
    for option in LEAVES[name].params:
        if isinstance(option, click.Option):
            usage, text = option.get_help_record(context) or ("", "")
            assert option.metavar or not TYPE_NAME.search(usage), usage
            assert not COMPUTED_DEFAULT.search(text), text
            assert option.help or isinstance(option.type, click.Choice), usage


def ends_with_a_code(node: ast.AST) -> bool:
    """Return whether `node` ends `hud` with another code than that of an interruption."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "sys.exit"
        and ast.unparse(node.args[0]) != "EXIT_INTERRUPTED"
    )


def test_commands_that_end_with_a_code_document_it() -> None:
    documented = {
        command.callback.__module__
        for command in LEAVES.values()
        if isinstance(command, ExampleCommand) and command.exit_codes and command.callback
    }
    ending = {
        f"compile_hud.{file.removesuffix('.py').replace('/', '.')}"
        for file in python_files("runner/cli")
        if any(map(ends_with_a_code, ast.walk(tree_of(file))))
    }
    assert documented == ending


def test_exit_codes_are_in_the_help(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("compare", "--help")
    assert result.output.partition("Exit codes:")[2] == words


def command_in(line: str) -> list[str]:
    """Return the arguments of `hud` in a line of a shell, without pipes and redirections."""
    words = shlex.split(line)
    if "|" in words:
        words = words[words.index("|") + 1 :]
    words = list(itertools.takewhile(lambda word: word not in (">", ">>"), words))
    assert words[0] == "hud"
    return words[1:]


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=lambda item: str(item))
def test_an_example_is_a_command_that_hud_accepts(
    name: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parse `line` as click does before it calls the command."""
    monkeypatch.chdir(tmp_path)
    arguments = command_in(line)
    for word in filter(FILE.fullmatch, arguments):
        Path(word).touch()
    context = main.make_context("hud", list(arguments))
    command: click.Command | None = main
    typed = []
    rest = list(arguments)
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        child, command, rest = command.resolve_command(context, rest)
        assert command is not None
        typed.append(child)
        context = command.make_context(child, rest, parent=context)
    assert tuple(typed) == name


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES])
def test_a_name_in_an_example_exists(line: str) -> None:
    arguments = command_in(line)
    for option, value in itertools.pairwise(arguments):
        known = NAMES.get(option)
        assert known is None or any(fnmatchcase(name, value) for name in known)


def test_a_wrong_option_in_an_example_would_be_noticed() -> None:
    context = main.make_context("hud", ["runs", "--limt", "5"])
    _, command, rest = main.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    with pytest.raises(click.NoSuchOption):
        command.make_context("runs", rest, parent=context)
