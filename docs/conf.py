"""The site: Sphinx's settings. `make docs` builds it; every page's code is run on the way."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "_ext")]

# For the processes that run the pages' code: where they find `drawing` and `experiments`, and how
# they draw; one thread each, so that the build leaves the other cores free.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
)
os.environ["MAXPLUS_EXAMPLES"] = str(HERE.parent / "examples")
os.environ["MAXPLUS_RESULTS"] = str(HERE.parent / "results")
os.environ["MATPLOTLIBRC"] = str(HERE / "matplotlibrc")
for library in ("NUMBA", "OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# What runs a page's code warns of its own local connection each time; errors are enough.
os.environ["IPYTHONDIR"] = str(HERE.parent / "build" / "docs-ipython")
profile = Path(os.environ["IPYTHONDIR"]) / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n")
# Commands on pages are those of the Python that builds them, and print what a file would get.
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
# What the gallery keeps beside its pages.
exclude_patterns = [f"gallery/*.{ending}" for ending in ("ipynb", "json", "py", "zip", "md5")]
root_doc = "index"
language = "en"
smartquotes = False  # two hyphens are an option of a command

# -- what counts as a mistake: everything (the Makefile makes errors of warnings) -----------------

nitpicky = True
nitpick_ignore_regex = [
    # Other projects' pages are not fetched: a build needs no network.
    (
        "py:.*",
        r"(numpy|np|scipy|sklearn|pandas|matplotlib|collections|typing|NDArray|ArrayLike)\b.*",
    ),
    # Arguments and attributes that a text names.
    ("py:obj", r"[\w.]+_"),
]
suppress_warnings = ["config.cache"]

# -- pages with code ------------------------------------------------------------------------------

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

# -- the reference --------------------------------------------------------------------------------

default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_use_plots = False

# -- the gallery ----------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    # PyTorch is larger than all the rest: its page is run where it is installed.
    "filename_pattern": "plot_" if find_spec("torch") else "plot_(?!torch)",
    "ignore_pattern": r"make_examples",
    "within_subsection_order": "gallery_order.InOrder",
    "capture_repr": (),  # scripts print what is to be seen
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "doc_module": ("maxplus",),
    "backreferences_dir": None,
    "reset_modules": ("gallery_order.as_on_other_pages",),
}

# -- how it looks ---------------------------------------------------------------------------------

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
