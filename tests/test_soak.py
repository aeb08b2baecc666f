"""One run of each soak trial, and the record of failures."""

import json

import pytest

import soak

# Trials that start processes are slow and similar to other tests.
NAMES = [name for name, trial in soak.TRIALS.items() if trial not in soak.PROCESS_TRIALS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_soak_trial_counts_its_checks(name):
    counts = soak.run(name, 1)
    assert counts
    assert all(n > 0 for n in counts.values())


def test_soak_failure_is_reported_with_seed_and_stored(tmp_path, monkeypatch, capsys):
    def fails(rng, folder):
        raise ArithmeticError("first line\nsecond line")

    trials = {"passes": lambda rng, folder: {"checks": 2}, "fails": fails}
    monkeypatch.setattr(soak, "TRIALS", trials)
    path = tmp_path / "results" / "soak.json"
    arguments = ["soak", "--seconds", "0.05", "--seed", "7", "--out", str(path)]
    monkeypatch.setattr("sys.argv", arguments)
    assert soak.main() == 1
    assert "FAILED fails, seed 8: ArithmeticError: first line\n" in capsys.readouterr().out
    record = json.loads(path.read_text())
    error = {"trial": "fails", "seed": 8, "error": "ArithmeticError: first line"}
    assert record["failures"][0] == error
    assert record["counts"]["passes"]["checks"] == 2 * record["counts"]["passes"]["trials"]
