"""Whether plugins' code has limits in time, in this process.

The problem: a person who looks into a plugin with a debugger stops the whole process at a line of it, for minutes.
Every limit on the time of a plugin's code would end, cancel, hold back or report that code meanwhile: the budget of a
call, a decision's time, the deadlines of `refresh`, `permit`, `post_bind` and `close`, of an import and of reading a
changed file. The idea: code that has such a limit asks here how long it is (`at_most`), so that `--debug-plugins`
decides once, before any plugin is loaded, and no limit can be forgotten.

    who asks                                  limits hold            lifted (--debug-plugins)
    a service                                 a debugger is kept out     a debugger may stand as long as it likes
    explain, simulate, plugin check, tests    a call in which a          likewise; coroutines and imports, too
                                              debugger stands goes on

Not asked are the times that a plugin names itself (the timeout of a Wait in Permit, `refresh_interval`), and what is
no limit on a plugin's code: backoffs, the queue's times, the API server's.
"""

from types import FrameType
from typing import Final

# Stands for no limit. A number, because timers, logs and wall-clock times cannot all be infinite.
UNLIMITED_SECONDS: Final = 30 * 86400.0
# Modules with whose code a debugger waits for a person. Those of ipdb, pudb and pytest are `bdb` below the surface.
_DEBUGGERS: Final = frozenset(("_pydevd_bundle", "bdb", "debugpy", "pdb", "pydevd"))


class PluginTimeLimits:
    """What a command has decided, before it has loaded a plugin. Use `PLUGIN_TIME`: a debugger stops the process."""

    __slots__ = ("is_limited", "lets_debuggers_in")

    def __init__(self) -> None:
        self.is_limited = True
        """Whether there are limits at all."""
        self.lets_debuggers_in = True
        """Whether a call goes on in which a debugger stands, though there are limits. Not in a service."""

    def at_most(self, seconds: float) -> float:
        """How long a plugin's code may take where the limit is `seconds`."""
        return seconds if self.is_limited else UNLIMITED_SECONDS

    def is_held(self, interrupted: FrameType | None) -> bool:
        """Whether a debugger stands in the code that was interrupted, and may."""
        frame = interrupted if self.lets_debuggers_in else None
        while frame is not None:
            if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DEBUGGERS:
                return True
            frame = frame.f_back
        return False


# Of this process.
PLUGIN_TIME: Final = PluginTimeLimits()
