"""Programs on several ranks: the command line, and the end of all ranks if one fails."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import maxplus

MPIEXEC = Path(sys.executable).with_name("mpiexec")
# Seconds until a test with a deadlocked rank fails.
LIMIT = 60
SUBGRADIENT = "--algorithm subgradient --validate none"

TRAINING = """
import os, signal, time
from threading import Thread
import numpy as np
import maxplus
from mpi4py import MPI
from maxplus.io import Checkpoint

comm = MPI.COMM_WORLD
rng = np.random.default_rng(comm.rank)
X, y = rng.normal(size=(400, 5)), np.arange(400) % 3

def fail(progress=None):
    if progress is None or progress.iteration >= 200:
        print(f"began {time.time()}", flush=True)
        ACTION

def fail_later():
    while not os.path.exists(CHECKPOINT):
        time.sleep(0.05)
    fail()

callbacks = [Checkpoint(CHECKPOINT, every=0.0)]
if VICTIM == 0:
    callbacks.append(fail)
elif comm.rank == VICTIM:
    # Callbacks are called on rank 0 only.
    Thread(target=fail_later, daemon=True).start()

clf = maxplus.SubgradientLMMClassifier(20, max_iter=10**9, random_state=0, callbacks=callbacks)
with maxplus.distributed.use_mpi(comm):
    clf.fit(X, y)
"""


def run(command, **options):
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        **options,
    )


def over(n, *command, **options):
    return run([MPIEXEC, "-n", n, *command], **options)


def command_line(*arguments):
    program = "from maxplus.cli import main; main()"
    return [sys.executable, "-c", program, *arguments]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "table.parquet"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = 2.0 * rng.normal(size=(3, 4))[y] + rng.normal(size=(600, 4))
    columns = {f"f{p}": X[:, p] for p in range(4)} | {"class": np.array(["a", "b", "c"])[y]}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=100)
    return path


def test_mpi_train_command_equals_one_process(table, tmp_path):
    options = f"{SUBGRADIENT} --set n_hidden=20 --set max_iter=300 --seed 3 --remember-rows".split()
    paths = tmp_path / "one.maxplus", tmp_path / "three.maxplus"
    one = run(command_line("train", table, *options, "-o", paths[0]))
    assert one.returncode == 0, one.stderr
    three = over(3, *command_line("train", table, *options, "-o", paths[1]))
    assert three.returncode == 0, three.stderr
    first, second = map(maxplus.load, paths)
    for name in ("W0_", "W1_", "W2_", "training_rows_", "training_losses_", "training_labels_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert first.encoder_.to_json() == second.encoder_.to_json()
    # Rank 0 prints the same, and the number of ranks.
    result = [line for line in three.stdout.splitlines() if "ranks," not in line]
    assert result == one.stdout.replace("one.maxplus", "three.maxplus").splitlines()


def test_mpi_predict_command_equals_one_process(table, tmp_path):
    model = tmp_path / "m.maxplus"
    options = f"{SUBGRADIENT} --set n_hidden=9 --set max_iter=20 -q".split()
    assert run(command_line("train", table, *options, "-o", model)).returncode == 0
    predictions = []
    for start in (run, lambda command: over(2, *command)):
        out = tmp_path / f"{len(predictions)}.csv"
        done = start(command_line("predict", model, table, "--probabilities", "-o", out))
        assert done.returncode == 0, done.stderr
        predictions.append(out.read_text())
    assert predictions[0] == predictions[1]
    for command in ("evaluate", "certify", "report"):
        done = over(2, *command_line(command, model, table))
        assert done.stderr.count(f"Error: maxplus {command} runs in one process") == 1


def test_mpi_command_prints_error_once(tmp_path):
    done = over(3, *command_line("train", tmp_path / "none.parquet", "-o", tmp_path / "m.maxplus"))
    assert done.returncode == 2
    assert done.stderr.count("Error:") == 1
    assert "No such file" in done.stderr
    # An error that all ranks detect is also printed once.
    done = over(2, *command_line("train", "iris", "--task", "poetry"))
    assert done.returncode == 2
    assert done.stderr.count("Error:") == 1
    assert "failed" not in done.stderr


def test_mpi_python_error_is_printed_once():
    program = (
        "import maxplus, numpy as np\nfrom mpi4py import MPI\n"
        "X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2\n"
        "with maxplus.distributed.use_mpi():\n"
        "    maxplus.SubgradientLMMClassifier(4, max_iter=5 + MPI.COMM_WORLD.rank).fit(X, y)\n"
    )
    done = over(3, sys.executable, "-c", program)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "same parameter max_iter; rank 0 has 5, rank 1 has 6" in done.stderr


def train_until_failure(tmp_path, victim, action):
    """Train until a rank fails; return the seconds until all ranks have ended, and the process."""
    checkpoint = tmp_path / "training.ckpt"
    program = TRAINING.replace("VICTIM", str(victim)).replace("ACTION", action)
    script = tmp_path / "train.py"
    script.write_text(program.replace("CHECKPOINT", repr(str(checkpoint))))
    done = over(3, sys.executable, script)
    began = [line for line in done.stdout.splitlines() if line.startswith("began")]
    assert len(began) == 1, done.stderr
    assert done.returncode != 0
    assert checkpoint.exists()
    return time.time() - float(began[0].split()[1]), done


def test_killed_rank_ends_all_ranks(tmp_path):
    seconds, _ = train_until_failure(tmp_path, 2, "os.kill(os.getpid(), signal.SIGKILL)")
    assert seconds < 5.0


def test_failing_rank_reports_error_and_ends_all_ranks(tmp_path):
    seconds, done = train_until_failure(tmp_path, 0, "raise MemoryError('no more memory')")
    assert seconds < 5.0
    message = [line for line in done.stderr.splitlines() if line.startswith("rank ")]
    assert len(message) == 1
    assert "rank 0 of 3" in message[0]
    assert "MemoryError: no more memory; use more machines" in message[0]
    # Training continues from the written checkpoint.
    rng = [np.random.default_rng(rank).normal(size=(400, 5)) for rank in range(3)]
    y = np.tile(np.arange(400) % 3, 3)
    stop = [lambda progress: True]
    clf = maxplus.resume(tmp_path / "training.ckpt", np.concatenate(rng), y, callbacks=stop)
    assert clf.n_iter_ >= 200


def test_missing_mpi4py_error_names_the_extra():
    program = (
        "import sys; sys.modules['mpi4py'] = None\nimport maxplus\n"
        "with maxplus.distributed.use_mpi(): pass"
    )
    done = run([sys.executable, "-c", program], env=os.environ)
    assert 'pip install "maxplus[mpi]"' in done.stderr
