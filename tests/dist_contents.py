"""Check of the contents of wheel and sdist: missing and unexpected files are errors.

python tests/dist_contents.py FOLDER
"""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from maxplus import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = f"maxplus-{__version__}"
# Suffixes of package data.
ASSETS = {".html", ".js", ".css"}
# Top-level files and folders of the source distribution.
TOP = {
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    ".gitignore",
}
FOLDERS = ("src", "experiments", "tests", "examples", "constraints")
MAX_BYTES = 2_000_000


def tracked() -> set[str]:
    """Return the files of the repository."""
    found = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(found.stdout.split("\n")) - {""}


def in_wheel(files: set[str]) -> set[str]:
    """Return the expected files of the wheel."""
    package = {
        name.removeprefix("src/")
        for name in files
        if name.startswith("src/maxplus/")
        and (Path(name).suffix in {".py", *ASSETS} or Path(name).name == "py.typed")
    }
    metadata = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    return package | {f"{NAME}.dist-info/{name}" for name in metadata}


def in_sdist(files: set[str]) -> set[str]:
    """Return the expected files of the source distribution."""
    folders = {name for name in files if name.split("/")[0] in FOLDERS}
    return {f"{NAME}/{name}" for name in folders | TOP | {"PKG-INFO"}}


def differences(archive: str, found: set[str], expected: set[str]) -> list[str]:
    """Return a message for each unexpected or missing file."""
    return [f"{archive}: {name} is not expected" for name in sorted(found - expected)] + [
        f"{archive}: {name} is missing" for name in sorted(expected - found)
    ]


def check(folder: Path) -> list[str]:
    """Return all errors of the two archives in a folder."""
    wheel, sdist = folder / f"{NAME}-py3-none-any.whl", folder / f"{NAME}.tar.gz"
    files = tracked()
    with zipfile.ZipFile(wheel) as archive:
        errors = differences(wheel.name, set(archive.namelist()), in_wheel(files))
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    with tarfile.open(sdist) as archive:
        errors += differences(sdist.name, set(archive.getnames()), in_sdist(files))
    errors += [
        f"{path.name}: {path.stat().st_size:,} bytes are more than {MAX_BYTES:,}"
        for path in (wheel, sdist)
        if path.stat().st_size > MAX_BYTES
    ]
    headers = HeaderParser().parsestr(metadata)
    if "](docs/" in metadata or "](results/" in metadata:
        errors.append("METADATA: README.md contains a relative link")
    if not headers.get_all("Project-URL"):
        errors.append("METADATA: no Project-URL")
    return errors


if __name__ == "__main__":
    errors = check(Path(sys.argv[1]))
    print("\n".join(errors) or "wheel and sdist contain exactly the expected files")
    sys.exit(bool(errors))
