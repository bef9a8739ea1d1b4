"""Two filters in one file that fit together only as a whole, in two versions. `tests/assembly/loading` plays them, too.

Under the first version only node a is left (`ab` and `ad`), under the second only c (`cd` and `cb`). Anyone who asks
one filter of each finds b or d: a pod there was decided by half of a configuration.
"""

from typing import Final

NODES: Final = ("a", "b", "c", "d")
# Where pods may go.
WHOLE: Final = frozenset({"a", "c"})
SCHEDULER: Final = "red"
FILE: Final = "pair.py"
_PAIR: Final = """\
from kscheduler import plugin

@plugin("Left", sign=lambda pod: None)
def filter(pod, node):
    return None if node.name in "{}" else "left"

@plugin("Right", sign=lambda pod: None)
def filter(pod, node):
    return None if node.name in "{}" else "right"
"""
VERSIONS: Final = (_PAIR.format("ab", "ad"), _PAIR.format("cd", "cb"))
CONFIG: Final = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
pluginSources: [{{file: {FILE}}}]
profiles:
- schedulerName: {SCHEDULER}
  plugins: {{multiPoint: {{enabled: [{{name: Left}}, {{name: Right}}]}}}}
"""


def version(number: int) -> str:
    """The file's content for the reload of this number: not the version of the last one, and never the same bytes."""
    return f"{VERSIONS[number % 2]}# {number}\n"
