"""Links of the pages, as they must be on the site.

A page links to files as GitHub resolves them: `explain.md#objects`, `../kscheduler/api/core.py`, and in README.md,
which is a page of the site too, `docs/explain.md`. On the site a page stays a page, with its anchor, and a picture a
picture; every other file of the repository has its address there. What leads nowhere is left as it is, and MyST warns
of it.
"""

import os
import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

# Files outside docs/, and the page that includes each.
INCLUDED: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
BRANCH: Final = "main"
# What stands behind a link's text: a path without scheme, and perhaps an anchor.
_TARGET: Final = re.compile(r"(?<=\]\()([\w./-]+)(#[\w-]+)?(?=\))")


class RelativeLinks:
    """Rewrites the links of the pages in a folder `docs`, which stands in the root of the repository."""

    def __init__(self, docs: Path, repository: str) -> None:
        self._docs, self._root, self._repository = docs, docs.parent, repository

    def rewritten(self, text: str, file: Path, page: Path) -> str:
        """The text of `file`, with its links as they are on `page`, which is the same file or includes it."""
        return _TARGET.sub(lambda match: self._target(match[1], file, page) + (match[2] or ""), text)

    def _target(self, link: str, file: Path, page: Path) -> str:
        target = Path(os.path.normpath(file.parent / link))
        if not target.exists() or not target.is_relative_to(self._root):
            return link
        inside = target.relative_to(self._root).as_posix()
        if inside in INCLUDED:
            target = self._docs / INCLUDED[inside]
        if target.is_relative_to(self._docs) or target.suffix == ".png":
            return os.path.relpath(target, page.parent)
        return f"{self._repository}/{'tree' if target.is_dir() else 'blob'}/{BRANCH}/{inside}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the reading of pages, and of the files that they include."""
    app.add_config_value("repository", "", "env", str)

    def rewrite(app: Sphinx, content: list[str], file: Path | None = None) -> None:
        page = Path(app.env.doc2path(app.env.docname))
        links = RelativeLinks(Path(app.srcdir), app.config.repository)
        content[0] = links.rewritten(content[0], page if file is None else app.srcdir / file, page)

    app.connect("source-read", lambda app, _name, content: rewrite(app, content))
    app.connect("include-read", lambda app, file, _name, content: rewrite(app, content, file))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
