"""``maxplus plan``: memory and time of a training, before it is begun."""

import re

import pytest

from commands import bad, document, good
from maxplus.lab.measure import peak_bytes
from maxplus.training import forecast as forecasts

WHOLE = ("plan", "--rows", "1e8", "--features", 784, "--units", 500, "--ranks", 64)


def test_a_plan_tells_memory_time_and_whether_it_fits():
    said = document(*WHOLE, "--machines", 16, "--memory", 128)
    assert said["fits"]
    assert said["rows"] == 1_562_500
    # The formula of the guide: n·(8·P + 12·H + 20·C) bytes + 330 MB.
    n, P, H, C = said["rows"], 784, 500, 10
    assert said["memory"] == pytest.approx(n * (8 * P + 12 * H + 20 * C) + 330e6, rel=0.1)
    assert said["memory_of_a_machine"] == 4 * said["memory"]
    assert 0 < said["constant"] < said["polyak"] < 1
    assert "fits" in good(*WHOLE, "--machines", 16, "--memory", 128)


def test_the_machines_that_a_plan_asks_for_are_enough():
    for memory in (21, 50, 100):
        said = good(*WHOLE, "--memory", memory)
        assert "does not fit" in said
        machines = int(re.search(r"take (\d+) machines", said)[1])
        assert document(*WHOLE, "--memory", memory, "--machines", machines)["fits"]
        if machines > 1:
            assert not document(*WHOLE, "--memory", memory, "--machines", machines - 1)["fits"]
    # No number of machines helps where one rank is too large.
    assert "take more ranks" in good(*WHOLE, "--memory", 20)


def test_a_plan_of_many_rows_takes_little_memory():
    before = peak_bytes()
    forecasts.forecast(10**10, 784, 500, 10, 1)
    assert peak_bytes() - before < 200_000_000


def test_what_is_no_plan_is_refused():
    assert "rows" in bad("plan", "--rows", 0, "--features", 3)
