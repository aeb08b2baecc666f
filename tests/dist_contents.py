"""Whether wheel and sdist hold what they should, and nothing else.

    python tests/dist_contents.py FOLDER

A file that is not in the repository, or that nobody thought of, is an error; so is one that lacks.
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
# What a user's installation needs besides Python files.
ASSETS = {".html", ".js", ".css"}
# Files at the top that a source distribution holds, and whole folders of the repository.
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
MOST_BYTES = 2_000_000


def tracked() -> set[str]:
    """The repository's files."""
    found = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(found.stdout.split("\n")) - {""}


def in_wheel(files: set[str]) -> set[str]:
    """What the wheel is to hold."""
    package = {
        name.removeprefix("src/")
        for name in files
        if name.startswith("src/maxplus/")
        and (Path(name).suffix in {".py", *ASSETS} or Path(name).name == "py.typed")
    }
    about = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    return package | {f"{NAME}.dist-info/{name}" for name in about}


def in_sdist(files: set[str]) -> set[str]:
    """What the source distribution is to hold."""
    folders = {name for name in files if name.split("/")[0] in FOLDERS}
    return {f"{NAME}/{name}" for name in folders | TOP | {"PKG-INFO"}}


def complaints(archive: str, found: set[str], wanted: set[str]) -> list[str]:
    """One line for each file too many or too few."""
    return [f"{archive}: {name} should not be there" for name in sorted(found - wanted)] + [
        f"{archive}: {name} is missing" for name in sorted(wanted - found)
    ]


def check(folder: Path) -> list[str]:
    """What is wrong with the two archives of a folder."""
    wheel, sdist = folder / f"{NAME}-py3-none-any.whl", folder / f"{NAME}.tar.gz"
    files = tracked()
    with zipfile.ZipFile(wheel) as archive:
        wrong = complaints(wheel.name, set(archive.namelist()), in_wheel(files))
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    with tarfile.open(sdist) as archive:
        wrong += complaints(sdist.name, set(archive.getnames()), in_sdist(files))
    wrong += [
        f"{path.name}: {path.stat().st_size:,} bytes are more than {MOST_BYTES:,}"
        for path in (wheel, sdist)
        if path.stat().st_size > MOST_BYTES
    ]
    headers = HeaderParser().parsestr(metadata)
    if "](docs/" in metadata or "](results/" in metadata:
        wrong.append("METADATA: a link of README leads to a file beside it, which is not there")
    if not headers.get_all("Project-URL"):
        wrong.append("METADATA: no addresses")
    return wrong


if __name__ == "__main__":
    wrong = check(Path(sys.argv[1]))
    print("\n".join(wrong) or "wheel and sdist hold what they should, and nothing else")
    sys.exit(bool(wrong))
