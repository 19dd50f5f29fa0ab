from __future__ import annotations

import pytest

from compile_hud.runner.system.dashboard_urls import dashboard_url, series_url
from tests.support.builders import make_alert


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8501"),
        ("0.0.0.0", "http://localhost:8501"),
        ("::", "http://localhost:8501"),
        ("::1", "http://[::1]:8501"),
    ],
)
def test_an_address_is_one_that_a_browser_opens(host: str, url: str) -> None:
    assert dashboard_url(host=host, port=8501) == url


def test_a_kernel_is_addressed_by_the_latency_of_its_case() -> None:
    url = series_url(make_alert(kind="masked"), dashboard="http://hud:80")
    assert "metric=latency_s" in url


def test_a_series_is_addressed_by_case_metric_machine_and_toolchain() -> None:
    alert = make_alert(machine="a b", toolchain="night+ly")
    assert series_url(alert, dashboard="http://hud:80") == (
        "http://hud:80/series?case=bert%2Finference%2Ftiny%2Ffp32%2Fdefault%2Fcpu"
        "&metric=latency_s&machine=a+b&toolchain=night%2Bly"
    )
