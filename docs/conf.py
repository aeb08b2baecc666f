"""Configuration of Sphinx. `make docs` builds the site and executes the code of all pages."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "_ext")]

# Environment of the notebook kernels that execute the pages: import paths, data, style of figures,
# and one thread each, so that pages can be executed in parallel.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
)
os.environ["MAXPLUS_EXAMPLES"] = str(HERE.parent / "examples")
os.environ["MAXPLUS_RESULTS"] = str(HERE.parent / "results")
os.environ["MATPLOTLIBRC"] = str(HERE / "matplotlibrc")
for library in ("NUMBA", "OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# Notebook kernels warn of their local connection at each start; show errors only.
os.environ["IPYTHONDIR"] = str(HERE.parent / "build" / "docs-ipython")
profile = Path(os.environ["IPYTHONDIR"]) / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n")
# Commands on pages are those of this Python environment, with the output of a non-terminal.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ |= {
    "COLUMNS": "96",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}

from maxplus import __version__  # noqa: E402

project = "maxplus"
author = "The maxplus developers"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_design",
    "anchors",
    "command_cells",
    "command_pages",
    "included_pages",
    "plain_docstrings",
    "record_fields",
    "result_pages",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
templates_path = ["_templates"]
# Files that Sphinx-Gallery writes next to its pages.
exclude_patterns = [f"gallery/*.{ending}" for ending in ("ipynb", "json", "py", "zip", "md5")]
root_doc = "index"
language = "en"
smartquotes = False  # keep the two hyphens of command-line options

# -- warnings (errors in the Makefile) ------------------------------------------------------------

nitpicky = True
nitpick_ignore_regex = [
    # No intersphinx: a build must work without a network.
    (
        "py:.*",
        r"(numpy|np|scipy|sklearn|pandas|matplotlib|collections|typing|NDArray|ArrayLike)\b.*",
    ),
    # Arguments and attributes in docstrings.
    ("py:obj", r"[\w.]+_"),
]
suppress_warnings = ["config.cache"]

# -- executed pages ------------------------------------------------------------------------------

nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "docs-cache")
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_markdown_format = "myst"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
mathjax3_config = {"chtml": {"mtextInheritFont": True}}

# -- API reference --------------------------------------------------------------------------------

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_use_plots = False

# -- gallery --------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    # PyTorch is large and therefore optional.
    "filename_pattern": "plot_" if find_spec("torch") else "plot_(?!torch)",
    "ignore_pattern": r"make_examples",
    "within_subsection_order": "gallery_order.InOrder",
    "capture_repr": (),  # scripts print their output
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "doc_module": ("maxplus",),
    "backreferences_dir": None,
    "reset_modules": ("gallery_order.reset_style",),
}

# -- theme ----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "maxplus"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {
        "text": "maxplus",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
