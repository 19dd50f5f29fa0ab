from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.load import (
    Config,
    demo_store_url,
    load_config,
    parse_config,
)
from compile_hud.runner.config.schema import SETTINGS
from compile_hud.runner.config.settings_file import find_line
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.planning.suites import BUILTIN_SUITES

PATH = Path("/project/hud.toml")


def parse(content: str, **env: str) -> Config:
    return parse_config(content, path=PATH, env=env)


def test_without_a_file_everything_has_a_default() -> None:
    config = parse_config("", path=None, env={})
    assert config.store_url == "duckdb:///.hud/store.duckdb"
    assert config.state_dir == Path(".hud")
    assert config.toolchains == {"current": Path(sys.executable)}
    assert config.suites == BUILTIN_SUITES
    assert config.schedules == {}
    assert (config.host, config.port) == ("127.0.0.1", 8501)
    assert config.machine


def test_every_section_is_read() -> None:
    config = parse("""
        [store]
        url = "postgresql+psycopg://hud@db/hud"
        [machine]
        name = "box-7"
        [run]
        launches = 5
        rounds = 7
        max_launches = 9
        target_interval = 0.05
        budget_s = 2
        threads = 4
        timeout_s = 60
        memory_limit = "8 GB"
        memory_snapshot = true
        compile_trace = "changed"
        [toolchains]
        nightly = "envs/nightly/bin/python"
        installed = "python3.13"
        [suites.mine]
        models = "bert"
        modes = ["eager", "default"]
        shape = ["tiny", "auto"]
        launches = 2
        max_launches = 3
        target_interval = 0
        time_budget = "1.5 h"
        [schedules.night]
        cron = "30 2 * * mon-fri"
        timezone = "Europe/Berlin"
        suite = "mine"
        toolchain = "nightly"
        [server]
        port = 0
    """)
    assert config.store_url == "postgresql+psycopg://hud@db/hud"
    assert config.machine == "box-7"
    assert config.measure.num_launches == 5
    assert config.measure.num_rounds == 7
    assert config.measure.max_launches == 9
    assert config.measure.target_interval == 0.05
    assert config.measure.budget_s == 2.0
    assert config.measure.num_threads == 4
    assert config.measure.timeout_s == 60.0
    assert config.measure.memory_limit_bytes == 8_000_000_000
    assert config.measure.memory_snapshot is True
    assert config.measure.compile_trace == "changed"
    assert config.toolchains["nightly"] == Path("/project/envs/nightly/bin/python")
    assert config.toolchains["installed"] == Path("python3.13")
    assert config.suites["mine"].selection.models == ("bert",)
    assert config.suites["mine"].selection.shapes == ("tiny", "auto")
    assert config.suites["mine"].time_budget_s == 5400.0
    own = config.suites["mine"].settings(config.measure)
    assert (own.num_launches, own.max_launches, own.target_interval) == (2, 3, 0.0)
    assert (own.num_rounds, own.budget_s) == (7, 2.0)
    assert config.schedules["night"].timezone == "Europe/Berlin"
    assert config.schedules["night"].toolchain == "nightly"
    assert config.port == 0


def test_state_and_store_are_in_the_folder_of_the_file() -> None:
    config = parse('[paths]\nstate = "state"')
    assert config.state_dir == Path("/project/state")
    assert config.store_url == "duckdb:////project/state/store.duckdb"


def test_traces_are_in_the_folder_of_a_store_file() -> None:
    config = parse('[traces]\nnights = 3\nmax_size = "5 MB"')
    assert config.traces_dir == Path("/project/.hud/store.duckdb.traces")
    assert config.trace_rules == TraceRules(num_nights=3, max_bytes=5_000_000)
    other = replace(config, store_url="duckdb:///other.duckdb")
    assert other.traces_dir == Path("other.duckdb.traces")


@pytest.mark.parametrize("url", ["postgresql+psycopg://host/hud", "duckdb:///:memory:"])
def test_traces_of_a_server_store_need_a_folder(url: str) -> None:
    assert parse(f'[store]\nurl = "{url}"').traces_dir is None
    named = parse(f'[store]\nurl = "{url}"\n[traces]\nfolder = "shared"')
    assert named.traces_dir == Path("/project/shared")


def test_the_environment_wins() -> None:
    config = parse(
        '[store]\nurl = "duckdb:///a.duckdb"\n[paths]\nstate = "b"',
        HUD_DATABASE_URL="duckdb:///c.duckdb",
        HUD_STATE_DIR="/d",
    )
    assert config.store_url == "duckdb:///c.duckdb"
    assert config.state_dir == Path("/d")


def test_the_demo_store_is_another_one() -> None:
    config = parse("")
    assert demo_store_url(config.state_dir) != config.store_url


def test_an_own_model_is_in_the_catalog_with_the_zoo() -> None:
    config = parse("""
        [models.ours]
        build = "nets/ours.py:make"
        num_samples = 8
        [models.packaged]
        build = "ours.nets:make"
        phases = "inference"
        tolerance = { bf16 = { min_cosine = 0.9, max_rmse_ratio = 5 } }
    """)
    ours, packaged = config.catalog["ours"], config.catalog["packaged"]
    assert ours.build == "/project/nets/ours.py:make"
    assert ours.sizes["default"].num_samples == 8
    assert packaged.build == "ours.nets:make"
    assert packaged.phases == ("inference",)
    assert ours.tolerance == {}
    assert packaged.tolerance["bf16"].set_fields == {"min_cosine": 0.9, "max_rmse_ratio": 5}
    assert "bert" in config.catalog


@pytest.mark.parametrize(
    "content",
    [
        "[run]\nlanches = 3",
        "[run]\nLAUNCHES = 3",
        "\n\n[rnu]\nx = 1",
        "zzz = 1",
        "run = 1",
        "[suites]\nmine = 1",
        "[run]\nlaunches = 0",
        "[run]\nlaunches = true",
        "[run]\nbudget_s = -1.5",
        "[run]\ntarget_interval = 1",
        "[run]\ntarget_interval = true",
        "[run]\nbudget_s = nan",
        "[run]\ntimeout_s = inf",
        "[suites.a]\nbudget_s = 604801",
        '[run]\nmemory_limit = "8 XB"',
        "[run]\nmemory_limit = 0",
        '[suites.x]\ntime_budget = "2 days"',
        "[suites.x]\ntime_budget = 0",
        '[suites.x]\ntime_budget = "999 h"',
        "[server]\nport = 99999",
        "[server]\nperfetto = 'javascript:x'",
        '[server]\nurl = "https://me:password@hud.example"',
        '[store]\nurl = ""',
        "[toolchains]\nnight = 3",
        "[suites.a]\nmodels = []",
        "[suites.a]\nmodels = [1]",
        '[suites.a]\nphases = "train"',
        '[suites.a]\ndtypes = "fp8"',
        '[schedules.n]\nsuite = "tiny"',
        '[schedules.n]\ncron = "0 0 * *"',
        '[schedules.n]\ncron = "0 0 * * 1"',
        '[schedules.n]\ncron = "0 25 * * *"',
        '[schedules.n]\ncron = "0 1 * * *"\ntimezone = "Berlin"',
        '[schedules.n]\ncron = "0 1 * * *"\nsuite = "nighly"',
        '[schedules.n]\ncron = "0 1 * * *"\ntoolchain = "x"',
        '[models.bert]\nbuild = "x"',
        *(
            f'[models.x]\nbuild = "x"\ntolerance = {value}'
            for value in (
                "0.9",
                "{ fp8 = {} }",
                "{ bf16 = 0.9 }",
                "{ bf16 = { cosine = 0.9 } }",
                "{ bf16 = { min_cosine = true } }",
                "{ bf16 = { min_cosine = -0.1 } }",
                "{ bf16 = { min_cosine = 1.1 } }",
                "{ bf16 = { max_rmse_ratio = inf } }",
            )
        ),
        "[models.x]",
    ],
)
def test_a_mistake_is_reported_with_line_and_key(content: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert str(caught.value).startswith("/project/hud.toml")
    assert str(caught.value) == words


def test_a_syntax_error_is_reported_with_its_line(words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[run]\nlaunches = = 3\n")
    assert str(caught.value) == (words)


def test_a_syntax_error_at_the_end_is_reported(words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse('[run]\nlaunches = "')
    assert caught.value.parameters["name"] == "/project/hud.toml"
    assert str(caught.value) == words


def test_a_key_is_found_in_its_own_section() -> None:
    content = '[a]\nkey = 1\n[ b . "c" ] # why\n"key" = 2\n'
    assert find_line(content, section="a", key="key") == 2
    assert find_line(content, section="b.c", key="key") == 4
    assert find_line(content, section="b.c") == 3
    assert find_line(content, section="d", key="key") is None


def test_a_table_is_found_by_its_header_or_in_the_section_above() -> None:
    content = "[a.x]\nb = 1\n[a.x.table]\nkey = 1\n[c]\ny = { key = 1 }\nz.table.key = 1\n"
    assert find_line(content, section="a.x", key="table") == 3
    assert find_line(content, section="c.y", key="key") == 6
    assert find_line(content, section="c.z", key="table") == 7
    assert find_line(content, section="c.z") is None


def test_sizes_have_units() -> None:
    for text, size in [("1024", 1024), ("2 kb", 2000), ("1.5G", 1_500_000_000)]:
        config = parse(f'[run]\nmemory_limit = "{text}"')
        assert config.measure.memory_limit_bytes == size


def test_every_setting_has_a_description() -> None:
    assert all(row.description.endswith(".") for row in SETTINGS)
    places = [(row.section, row.key) for row in SETTINGS]
    assert len(places) == len(set(places))


def test_reference_cases_are_measured_by_default(words: SnapshotAssertion) -> None:
    assert parse("").has_references
    assert not parse("[run]\nreference_cases = false").has_references
    with pytest.raises(ConfigError) as caught:
        parse("[run]\nreference_cases = 1")
    assert str(caught.value) == words


def test_a_model_can_neither_be_named_nor_filed_as_a_reference_case(
    words: SnapshotAssertion,
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse('[models.ref_gemm]\nbuild = "own"')
    assert str(caught.value) == words
    with pytest.raises(ConfigError) as caught:
        parse('[models.own]\nbuild = "own"\nfamily = "reference"')
    assert str(caught.value) == words


@pytest.mark.parametrize("section", ["run", "suites.mine"])
def test_no_more_launches_are_requested_than_there_may_be(
    section: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"""
            [{section}]
            launches = 4
            max_launches = 2
        """)
    assert str(caught.value) == words


def test_of_the_numbers_of_launches_a_default_gives_way() -> None:
    assert parse("[run]\nlaunches = 9").measure.num_launches == 9
    assert parse("[run]\nmax_launches = 2").measure.max_launches == 2


@pytest.mark.parametrize("kind", ["dangling", "loop", "pipe"])
def test_a_file_that_is_no_file_is_refused_though_nobody_named_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "pipe":
        os.mkfifo("hud.toml")
    else:
        Path("hud.toml").symlink_to("missing.toml" if kind == "dangling" else "hud.toml")
    with pytest.raises(ConfigError) as caught:
        load_config(None, env={})
    assert str(caught.value) == words


def test_a_pipe_of_a_shell_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"[machine]\nname = 'box'")
    os.close(writing)
    try:
        assert load_config(Path(f"/dev/fd/{reading}"), env={}).machine == "box"
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    "content",
    [
        '[suites."a\\u001b[31m"]\nmodels = "bert"',
        '[receivers."a\\u009b"]\nkind = "webhook"',
        '[toolchains]\n"a\\u202e" = "python3"',
        '[schedules."a\\nb"]\ncron = "@daily"',
        '[routes."a\\u0007"]\nreceivers = "me"',
        '[variants."a\\u001b"]\nbase = "default"',
        '[models."a\\u001b"]\nbuild = "own"',
        '[shapes."a\\u001b"]\nmodels = "bert"',
        '[run]\n"a\\u001b" = 1',
        '["a\\u001b"]',
        '[machine]\nname = "a\\u001b[31m"',
        '[suites.mine]\ntags = ["a\\u001b[31m"]',
        '[suites.mine]\nmodels = """\nbert"""\n[suites."a\\u001b"]',
    ],
)
def test_control_characters_are_refused_and_shown_escaped(
    content: str, words: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert str(caught.value) == words
    assert str(caught.value).isprintable()
    assert caught.value.parameters["line"]


def test_a_space_that_breaks_no_line_is_no_control_character() -> None:
    assert parse('[machine]\nname = "B\u00fcro\u00a01"').machine == "B\u00fcro\u00a01"


@pytest.mark.parametrize(
    "content",
    [
        b"[machine]\nname = '\xff'",
        None,
    ],
)
def test_unreadable_settings_have_a_reason_and_a_next_step(
    tmp_path: Path, content: bytes | None, words: SnapshotAssertion
) -> None:
    path = tmp_path / "hud.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    assert str(caught.value) == words
