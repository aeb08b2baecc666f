"""Model files with a right digest and a wrong content."""

import json

from safetensors.numpy import load_file

from maxplus.io import container


def tamper(path, change):
    """Rewrite a model file with a right digest, so that only deeper checks can find fault."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        metadata = dict(file.metadata())
    arrays, document = load_file(path), json.loads(metadata["document"])
    change(document, arrays)
    container.write_container(path, metadata["format"], document, arrays)
