"""The examples of the documents are what the program reads: command lines, settings, JSON, YAML."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from markdown_it import MarkdownIt

from compile_hud.app.__main__ import DEFAULT_PORT
from compile_hud.app.data.latest_results import NUM_BASELINE_RUNS
from compile_hud.db.records.metrics import METRICS
from compile_hud.runner.cli.main import main as hud
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.planning.suites import BUILTIN_SUITES
from tests.support.sources import documents, text_of

# `VARIABLE=value .venv/bin/hud run`, also behind the prompt of a list in YAML.
_COMMAND = re.compile(r"^(?:- )?(?:[A-Z_]+=\S+ )*(?:\S*/)?hud (?P<arguments>[a-z-].*)$")
# Sections that an example names and another one has.
_SECTIONS = {
    "[suites.ours]": 'models = ["bert"]',
    "[receivers.team]": 'url = "https://hooks.example.org/"\nkind = "slack"',
}
# Types whose values need no file, no store and no network.
_PLAIN = (click.Choice, click.types.IntParamType, click.types.FloatParamType, click.IntRange)


def fences(document: str, *languages: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each fenced block in one of the languages, indented ones too."""
    for token in MarkdownIt("commonmark").parse(text_of(document)):
        if token.type == "fence" and token.info.strip() in languages:
            yield (token.map or [0])[0] + 1, token.content


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of `hud` in a block."""
    for line in text.replace("\\\n", " ").splitlines():
        match = _COMMAND.match(line.strip())
        if match is None:
            continue
        lexer = shlex.shlex(match["arguments"], posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        yield [*itertools.takewhile(lambda word: word.strip("|&;<>"), lexer)]


def check(arguments: list[str]) -> None:
    """Raise UsageError if a command or option does not exist, or a choice is none of its values.

    Nothing is executed: no file is opened, and names of models, runs and stores are any text.
    """
    command: click.Command = hud
    # click remembers the names of the help option that it meets first.
    context = click.Context(command, info_name="hud", **command.context_settings)
    while isinstance(command, click.Group):
        parser = command.make_parser(context)
        parser.allow_interspersed_args = False
        _, arguments, _ = parser.parse_args(list(arguments))
        if not arguments:
            return
        name, child, arguments = command.resolve_command(context, arguments)
        assert child is not None
        command, context = child, click.Context(child, info_name=name, parent=context)
    values, surplus, _ = command.make_parser(context).parse_args(list(arguments))
    if surplus:
        raise click.UsageError(f"too many arguments: {surplus}")
    for parameter in command.params:
        value = values.get(parameter.name or "")
        is_given = isinstance(value, str | list | tuple) and len(value) > 0
        if parameter.required and not is_given:
            raise click.MissingParameter(param=parameter, ctx=context)
        if isinstance(value, str | list) and isinstance(parameter.type, _PLAIN):
            parameter.type_cast_value(context, value)


COMMANDS = [
    pytest.param(arguments, id=f"{document}:{line}: {' '.join(arguments)[:60]}")
    for document in documents()
    for line, text in fences(document, "", "sh", "bash", "console", "yaml")
    for arguments in commands_in(text)
]


def test_the_documents_have_command_lines() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_line_of_a_document_is_one(arguments: list[str]) -> None:
    check(arguments)


@pytest.mark.parametrize(
    ("line", "kind", "part"),
    [
        ("hud walk", click.UsageError, "walk"),
        ("hud run --modell bert", click.NoSuchOption, "--modell"),
        ("hud run --device tpu", click.BadParameter, "tpu"),
        ("hud compare a b --max-launches some", click.BadParameter, "some"),
        ("hud toolchain add", click.MissingParameter, "NAME"),
        ("hud up now", click.UsageError, "now"),
    ],
)
def test_a_wrong_command_line_is_noticed(
    line: str, kind: type[click.UsageError], part: str
) -> None:
    (arguments,) = commands_in(line)
    with pytest.raises(kind) as error:
        check(arguments)
    assert part in error.value.format_message()


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("HUD_STATE_DIR=/x .venv/bin/hud runs --json | jq . ", ["runs", "--json"]),
        ("hud run --model a \\\n  --mode b   # both", ["run", "--model", "a", "--mode", "b"]),
        ("  - hud compare a b; fi", ["compare", "a", "b"]),
    ],
)
def test_a_command_line_ends_where_the_shell_goes_on(line: str, arguments: list[str]) -> None:
    assert [*commands_in(line)] == [arguments]


SETTINGS = [
    pytest.param(text, id=f"{document}:{line}")
    for document in documents()
    for line, text in fences(document, "toml")
]


@pytest.mark.parametrize("text", SETTINGS)
def test_settings_of_a_document_are_loaded(text: str, tmp_path: Path) -> None:
    others = [f"{name}\n{body}\n" for name, body in _SECTIONS.items() if name not in text]
    secrets = dict.fromkeys(re.findall(r"env:(\w+)", text), "whsec_" + "MTIz" * 12)
    python = tmp_path / "python"
    parse_config(
        "\n".join([text, *others]),
        path=tmp_path / "hud.toml",
        env=secrets,
        built=lambda _state_dir: {"next": python, "nightly": python},
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=f"{document}:{line}")
        for document in documents()
        for line, text in fences(document, "json")
    ],
)
def test_json_of_a_document_is_json(text: str) -> None:
    json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=f"{document}:{line}")
        for document in documents()
        for line, text in fences(document, "yaml")
    ],
)
def test_yaml_of_a_document_is_yaml(text: str) -> None:
    assert yaml.safe_load(text)


def test_the_first_lesson_has_the_words_of_the_product() -> None:
    lesson = " ".join(text_of("docs/tutorial/first-night.md").split())
    quick = BUILTIN_SUITES["quick"].selection
    assert len({*quick.models, *(name for part in quick.also for name in part.models)}) == 6
    assert "`quick`: six small models" in lesson
    assert f'"Learning: 1 of {NUM_BASELINE_RUNS} runs"' in lesson
    assert NUM_BASELINE_RUNS == 7
    assert "After seven nights" in lesson
    assert f"changes of {METRICS['latency_s'].relevance_floor:.0%}".replace("%", " %") in lesson
    assert f"sign in: http://127.0.0.1:{DEFAULT_PORT}/sign-in?token=..." in lesson
