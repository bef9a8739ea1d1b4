"""The site: `make docs` builds it into build/docs.

Its pages are those that are read on GitHub, unchanged: `extensions/links.py` turns what leads out of docs/ into links
to the repository. The API reference is made from the names in plugin-api.md, and from docstrings and signatures:
`extensions/public_names.py`.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The extensions below are imported from the checkout.
sys.path.insert(0, str(ROOT))
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
version = release = _PROJECT["version"]
author = _PROJECT["authors"][0]["name"]
repository = _PROJECT["urls"]["Source"]

extensions = ["myst_parser", "docs.extensions.links", "docs.extensions.public_names"]
exclude_patterns = ["extensions"]

# Anchors are GitHub's, for all levels that a page links to; a link to one that is missing is a warning.
myst_heading_anchors = 4

# The heading above an entry has its module.
add_module_names = False

html_theme = "furo"
html_title = f"kscheduler {version}"
html_theme_options = {"source_repository": f"{repository}/", "source_branch": "main", "source_directory": "docs/"}
