"""Metadata that depend on where the project lives: its addresses, and what README links to.

A package page has no files beside it, so that relative links lead nowhere there. Where a workflow
builds, GitHub says which repository it is, and links become addresses of the released files;
elsewhere pictures and links are left out, and their words stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAPER = "https://arxiv.org/abs/2603.04133"
# ![words](path) or [words](path), where the path is no address and no place on the same page.
LINK = re.compile(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """The dynamic fields of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``urls`` and ``readme``."""
        home = home_of(os.environ)
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls_of(home)
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": page_of(text, home, f"v{metadata['version']}"),
        }


def home_of(environment: Mapping[str, str]) -> str | None:
    """The repository that a workflow builds; None elsewhere."""
    repository = environment.get("GITHUB_REPOSITORY")
    if not repository:
        return None
    return f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"


def urls_of(home: str | None) -> dict[str, str]:
    """Addresses for the package page."""
    if home is None:
        return {"Paper": PAPER}
    owner, name = home.rsplit("/", 2)[1:]
    return {
        "Homepage": home,
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Source": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Paper": PAPER,
    }


def page_of(text: str, home: str | None, tag: str) -> str:
    """README for a page with no files beside it."""

    def replaced(link: re.Match[str]) -> str:
        picture, words, path = link["picture"], link["words"], link["path"]
        if home is None:
            return "" if picture else words
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/{tag}/{path})"

    return LINK.sub(replaced, text)
