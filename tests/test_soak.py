"""One run of each soak trial, so that errors in the trials themselves are found early."""

import json

import pytest

from soak import __main__ as soak

# Those with processes of their own take long, and have tests of their own kind elsewhere.
WITHIN = [name for name, trial in soak.TRIALS.items() if trial.__module__ != "soak.processes"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHIN)
def test_soak_trial_counts_its_checks(name):
    counts = soak.run(name, 1)
    assert counts
    assert all(n > 0 for n in counts.values())


def test_soak_failure_is_reported_with_seed_and_stored(tmp_path, monkeypatch, capsys):
    def fails(rng, folder):
        raise ArithmeticError("always\nwith more to say")

    monkeypatch.setattr(soak, "TRIALS", {"fine": lambda rng, folder: {"things": 2}, "fails": fails})
    path = tmp_path / "results" / "soak.json"
    monkeypatch.setattr(
        "sys.argv", ["soak", "--seconds", "0.05", "--seed", "7", "--out", str(path)]
    )
    assert soak.main() == 1
    assert "FAILED fails, seed 8: ArithmeticError: always" in capsys.readouterr().out
    record = json.loads(path.read_text())
    assert record["failures"][0] == {
        "trial": "fails",
        "seed": 8,
        "error": "ArithmeticError: always",
    }
    assert record["counts"]["fine"]["things"] == 2 * record["counts"]["fine"]["trials"]
