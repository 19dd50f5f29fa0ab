"""The models of the sections: what each refuses, which error comes first, and that secrets hide."""

from __future__ import annotations

import logging
import traceback

import pytest

from compile_hud.runner.config.load import Config, parse_config
from compile_hud.runner.config.schema import SETTINGS
from compile_hud.runner.config.section import Setting, did_you_mean
from compile_hud.runner.errors import ConfigError


def parse(content: str) -> Config:
    return parse_config(content, path=None, env={})


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: f"{row.section}.{row.key}")
def test_every_setting_refuses_a_time_with_what_it_takes(row: Setting) -> None:
    key = "x" if row.key == "*" else row.key
    required = [item.key for item in SETTINGS if item.section == row.section and item.is_required]
    lines = [f'{name} = "x"' for name in required if name != key]
    with pytest.raises(ConfigError, match="takes ") as caught:
        parse("\n".join((f"[{row.section}]", *lines, f"{key} = 07:32:00")))
    assert caught.value.parameters == {"section": row.section, "key": key, "line": len(lines) + 2}


@pytest.mark.parametrize(
    ("content", "section", "key"),
    [
        ("[run]\nlaunches = 0\nlanches = 1", "run", "lanches"),
        ("[suites.x]\nmodle = 1\n[rnu]\n", "rnu", None),
        ("[[server]]\nport = 1\n[suites.x]\nmodle = 1", "server", None),
        ("[run]\nrounds = 0\n[store]\nurl = 1", "store", "url"),
        ("[routes.x]\nreceivers = 1\n[variants.x]\nbase = 'x'", "routes.x", "receivers"),
    ],
)
def test_unknown_names_come_before_values_and_values_before_contradictions(
    content: str, section: str, key: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert (caught.value.parameters["section"], caught.value.parameters["key"]) == (section, key)


def test_a_section_without_keys_has_the_defaults() -> None:
    assert parse("[run]\n[auth]") == parse("")


def test_a_list_in_a_list_is_no_value_of_an_axis() -> None:
    with pytest.raises(ConfigError) as caught:
        parse('[shapes.x]\nsize = "small"\nbatch = [[1]]')
    assert caught.value.parameters == {"section": "shapes.x", "key": "batch", "line": 3}


@pytest.mark.parametrize(
    "content",
    [
        '[schedules.x]\nwatch = "https://me:T0KEN-42@git.example.org/models"',
        '[schedules.x]\nat = "02:30"\nsuite = "https://me:T0KEN-42@git.example.org/suite"',
        '[store]\nurl = ["postgresql://hud:T0KEN-42@db/hud"]',
        '[server]\nurl = "https://hud.example.org/?token=T0KEN-42"',
    ],
)
def test_a_secret_in_a_refused_address_is_masked(content: str) -> None:
    with pytest.raises(ConfigError, match=r"\*\*\*") as caught:
        parse(content)
    assert "T0KEN" not in str(caught.value)


def test_a_long_value_is_cut_in_its_error() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f'[run]\nrounds = "{"9" * 5000}"')
    assert len(str(caught.value)) < 300


def test_a_size_beyond_every_float_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f'[traces]\nmax_size = "{"9" * 400} GB"')
    assert caught.value.parameters == {"section": "traces", "key": "max_size", "line": 2}


def test_tables_nested_too_deeply_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"a = {'{b=' * 3000}")
    assert caught.value.parameters["problem"] == "toml"


def test_dotted_keys_may_nest_deeper_than_calls() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"a{'.a' * 3000} = 1")
    assert caught.value.parameters["section"] == "a"


@pytest.mark.parametrize(
    "content",
    [
        '[receivers.ops]\nurl = "https://hooks.example.org:T0KEN/"',
        '[receivers.ops]\nsecret = "T0KEN"',
        '[receivers.ops]\nurl = "T0KEN"\nkind = "apprise"\nallow_private = true',
        '[server]\nurl = "https://me:T0KEN@hud.example.org"',
        '[server]\nlink_secret = "T0KEN"',
        '[auth]\nclient_secret = ["T0KEN"]',
    ],
)
def test_no_refused_secret_is_in_a_traceback_or_a_log(
    content: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as caught:
        parse(content)
    assert "T0KEN" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert "T0KEN" not in caplog.text


def test_a_name_where_none_is_defined_ends_in_no_empty_list() -> None:
    assert did_you_mean("nope", ()) == "; none is defined"
    assert did_you_mean("nope", ("team",)) == "; there is team"
