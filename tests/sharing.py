"""Session fixtures that are created by one worker of pytest-xdist and copied by the others."""

import os
import shutil
import time

TIMEOUT = 900.0


def made_once(tmp_path_factory, name, make):
    """Return the copy of this worker of a folder that is filled by ``make(folder)``."""
    base = tmp_path_factory.getbasetemp()
    # The folders of the workers have the same parent.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    done, failed = shared / "done", shared / "failed"
    try:
        shared.mkdir()
    except FileExistsError:
        end = time.monotonic() + TIMEOUT
        while not done.exists():
            assert not failed.exists(), f"another worker could not make {name}"
            assert time.monotonic() < end, f"another worker has not made {name}"
            time.sleep(0.2)
    else:
        (shared / "made").mkdir()
        try:
            make(shared / "made")
        except BaseException:
            failed.touch()
            raise
        done.touch()
    own = tmp_path_factory.mktemp(name) / "copy"
    shutil.copytree(shared / "made", own)
    return own
