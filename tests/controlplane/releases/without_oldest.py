"""A plugin of pytest: the oldest followed version is none any more (`-p tests.controlplane.releases.without_oldest`).

Its column is dropped, as a maintainer drops it, and that of the next version is the default; this is imported before
all other modules of kscheduler.
"""

from types import MappingProxyType
from typing import Any

from kscheduler.api import releases

OLDEST, NEXT, *_ = releases.BEHAVIOURS

_tables: Any = releases
_tables.BEHAVIOURS = MappingProxyType({name: each for name, each in releases.BEHAVIOURS.items() if name != OLDEST})
_tables.VERSION, _tables.RELEASE = NEXT, f"v{NEXT}.0"

from kscheduler.config import in_tree_plugins  # noqa: E402  it reads the table that was just changed

_points: Any = in_tree_plugins
_points.IN_TREE_POINTS.pop(OLDEST)
_points.DEFAULT_PLUGINS = MappingProxyType(
    {name: plugins for name, plugins in in_tree_plugins.DEFAULT_PLUGINS.items() if name != OLDEST}
)
