"""Reading the configuration again while the service runs: all of it is taken over, or nothing.

    file changed, SIGHUP --> read and check (in a thread) --> needs a restart? --> draft --> adopt, in one step
                                  |                                |                |
                                  '------------ refused: one line per mistake; the configuration before goes on

The checks are those of the start and of `kscheduler config check`, and a step more: plugins are built over the live
cluster. What the file says is overlaid by the flags of the command line, as at the start.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final

from kscheduler.aio.clock import finishes_within
from kscheduler.app.config_file import LOOK_SECONDS, ConfigSource, SettledFiles, bytes_of, digest_of
from kscheduler.app.parts import Parts
from kscheduler.assembly import Ruleset
from kscheduler.config.changes import EXCHANGEABLE, changed_fields, restart_problems
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.config.unhonoured import SettingWarning, unhonoured
from kscheduler.loading import Configured, PluginOrigin
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.metrics import ReloadResult, ReloadStatistics
from kscheduler.scheduling.extenders.addresses import unusable_extenders
from kscheduler.scheduling.profiles import rules_not_built

_log = get_logger("config")

FIRST_LIST_SECONDS: Final = 30.0
"""How long a new configuration waits for the objects of kinds that its plugins read."""
MOST_LOGGED: Final = 20
"""Mistakes of one file that get a line each."""


@dataclass(frozen=True, slots=True)
class _FileRead:
    """A file's content, and what it means or what is wrong with it."""

    digest: str = ""
    data: bytes = b""
    found: Configured | None = None
    problems: tuple[Problem, ...] = ()
    unexchangeable: LoadedConfig | None = None
    """Of a file with mistakes: the fields that only a start reads, if the mistakes are in others."""

    def refused_for(self, problems: tuple[Problem, ...]) -> "_FileRead":
        """The same file, with what a check of its meaning has found."""
        return replace(self, problems=tuple(with_lines(problems, self.data)))


class ConfigReloader:
    """Keeps the configuration in force equal to the file, as far as a running process can."""

    def __init__(self, source: ConfigSource | None, parts: Parts, origins: Iterable[PluginOrigin] = ()) -> None:
        """`source` `None`: there is no file, or it must not be read again. `origins`: of the plugins in force."""
        self._source = source
        self._parts = parts
        self._origins = tuple(origins)
        self._asked = asyncio.Event()
        self._results: Counter[ReloadResult] = Counter()
        self._refusal = ""
        self._digest = ""
        self._since = parts.clock.time()
        self._warned: frozenset[SettingWarning] = frozenset(unhonoured(parts.assembly.config))

    @property
    def is_on(self) -> bool:
        """Whether there is a file that may be read again."""
        return self._source is not None

    def ask(self) -> None:
        """Read the file as soon as possible, whether it has changed or not."""
        self._asked.set()

    def statistics(self) -> ReloadStatistics:
        """A snapshot."""
        return ReloadStatistics(self._since, dict(self._results), not self._refusal, self._digest)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` while a refused file waits for its correction."""
        return (self._refusal,) if self._refusal else ()

    async def run(self) -> None:
        """Follow the file until cancelled."""
        if self._source is None:
            await asyncio.get_running_loop().create_future()
            return
        files = await asyncio.to_thread(SettledFiles, self._source)
        await self._reload(self._source, is_first=True)
        while True:
            await self._until_due(self._source, files)
            is_asked = self._asked.is_set()
            self._asked.clear()
            await self._reload(self._source, is_asked=is_asked)

    async def _until_due(self, source: ConfigSource, files: SettledFiles) -> None:
        """Wait until somebody asks, or until a file has changed if they are watched."""
        if not source.is_watched:
            await self._asked.wait()
            return
        while not await finishes_within(self._wait_until_asked(), LOOK_SECONDS, self._parts.clock):
            if await asyncio.to_thread(files.has_changed):
                return

    async def _wait_until_asked(self) -> None:
        await self._asked.wait()

    async def _reload(self, source: ConfigSource, *, is_asked: bool = False, is_first: bool = False) -> None:
        """Read, and take over or refuse. Never raises: whatever the file makes of us, the service goes on."""
        async with self._parts.exchanging:
            await self._exchange(source, is_asked=is_asked, is_first=is_first)

    async def _exchange(self, source: ConfigSource, *, is_asked: bool, is_first: bool) -> None:
        try:
            found = await asyncio.to_thread(_read, source)
            waiting = self._judge(source, found, is_asked=is_asked, is_first=is_first)
            if waiting is not None:  # held until the second draft has its plugins: they keep the informers going
                await self._take_over_synced(source, found, is_asked=is_asked)
        except Exception as failure:  # noqa: BLE001  a boundary (`logs.caught`)
            count_caught(Boundary.CONFIG)
            _log.exception("config_reload_failed", file=source.path)
            self._refuse(source, _FileRead(problems=(Problem("", f"a bug of kscheduler: {failure}"),)))

    async def _take_over_synced(self, source: ConfigSource, found: _FileRead, *, is_asked: bool) -> None:
        """Wait for the first lists of kinds that new plugins read, then take over; without them, refuse."""
        missing = await self._parts.plugin_listers.wait_for_sync(FIRST_LIST_SECONDS)
        if missing:
            problems = (Problem("", f"a plugin reads {kind}, and there is no list of them yet") for kind in missing)
            self._refuse(source, found.refused_for(tuple(problems)))
        else:
            self._judge(source, found, is_asked=is_asked, is_first=False)

    # --- between two decisions: from here on nothing awaits -----------------------------------------------------------

    def _judge(self, source: ConfigSource, found: _FileRead, *, is_asked: bool, is_first: bool) -> Ruleset | None:
        """Take over or refuse; returns a draft that has to wait for objects which only its plugins read."""
        assembly, configured = self._parts.assembly, found.found
        if configured is None:
            rest = found.unexchangeable
            restart = restart_problems(assembly.config, rest) if rest is not None else ()
            self._refuse(source, found.refused_for((*found.problems, *restart)))
            return None
        changed = (*changed_fields(assembly.config, configured.config), *self._changed_plugins(configured))
        problems = restart_problems(assembly.config, configured.config)
        if problems:
            from kscheduler.whatif.profile_check import profile_problems  # rarely needed, and the start is measured

            unbuilt = profile_problems(configured.config, configured.registry)  # all at once: one edit can correct them
            self._refuse(source, found.refused_for((*problems, *unbuilt)))
        elif not changed and not (is_asked and assembly.quarantines()):  # asking lifts a quarantine
            self._note_unchanged(source, found.digest, is_asked=is_asked, is_first=is_first)
        else:
            try:
                ruleset = assembly.draft(configured.config, configured.registry)
            except ConfigError as failure:
                self._refuse(source, found.refused_for(self._all_problems(configured, failure)))
            else:
                listers = self._parts.plugin_listers
                if listers.is_running and listers.unsynced():
                    return ruleset
                self._adopt(source, ruleset, changed, found.digest)
                self._origins = configured.origins
                log_plugins(configured)
        return None

    def _changed_plugins(self, configured: Configured) -> Iterable[str]:
        """Plugins that came, went or have another content, as `changed` names them."""
        changed = frozenset(configured.origins) ^ frozenset(self._origins)
        return sorted({f"plugin {origin.name}" for origin in changed})

    def _all_problems(self, configured: Configured, failure: ConfigError) -> tuple[Problem, ...]:
        """What is wrong with each profile: a draft ends at the first that cannot be built."""
        from kscheduler.whatif.profile_check import placed, profile_problems  # rarely needed, and the start is measured

        where = f"{failure.where}: " if failure.where else ""
        config = configured.config
        first = (placed(Problem("", f"{where}{problem}"), config) for problem in failure.problems)
        return profile_problems(config, configured.registry) or tuple(first)

    def _adopt(self, source: ConfigSource, ruleset: Ruleset, changed: tuple[str, ...], digest: str) -> None:
        began = self._parts.clock.monotonic()
        before = self._parts.assembly.profiles.copy()
        adoption = self._parts.adopt(ruleset)
        self._succeed(ReloadResult.TAKEN_OVER, digest)
        fields = {name: value for name, value in asdict(adoption).items() if value}
        profiles, seconds = sorted(ruleset.profiles), round(self._parts.clock.monotonic() - began, 3)
        _log.info(
            "config_taken_over", file=source.path, hash=digest, changed=changed, profiles=profiles, **fields,
            seconds=seconds,
        )  # fmt: skip
        warnings = unhonoured(ruleset.config)
        for warning in warnings:
            if warning not in self._warned:
                _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        self._warned = frozenset(warnings)
        for name, profile in ruleset.profiles.items():
            missing = rules_not_built(profile)
            if missing and (name not in before or missing != rules_not_built(before[name])):
                _log.info("rules_not_built", profile=name, plugins=missing)

    def _note_unchanged(self, source: ConfigSource, digest: str, *, is_asked: bool, is_first: bool) -> None:
        if is_first:
            self._digest = digest  # the file of the start, whose name was not known so far
            return
        was_refused = bool(self._refusal)
        self._succeed(ReloadResult.UNCHANGED, digest)
        if is_asked or was_refused:
            _log.info("config_unchanged", file=source.path, hash=digest)

    def _succeed(self, result: ReloadResult, digest: str) -> None:
        self._results[result] += 1
        self._refusal, self._digest = "", digest
        self._since = self._parts.clock.time()

    def _refuse(self, source: ConfigSource, found: _FileRead) -> None:
        self._results[ReloadResult.REFUSED] += 1
        problems = found.problems
        for problem in problems[:MOST_LOGGED]:
            place = {"line": problem.line, "field": problem.path}
            given = {name: value for name, value in place.items() if value}
            _log.error("config_refused", file=source.path, **given, reason=problem.message)
        in_force = self._digest or "as at the start"
        _log.error("config_kept", file=source.path, problems=len(problems), hash=found.digest, in_force=in_force)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self._refusal = f"configuration: {source.path} was refused, the one before goes on: {problems[0]}{more}"


def log_plugins(configured: Configured) -> None:
    """Say which plugins of one's own are loaded, from where, and which of them no profile enables."""
    for origin in configured.origins:
        _log.info("plugin_loaded", plugin=origin.name, origin=origin.origin, hash=origin.digest)
    for origin in configured.unused:
        advice = "name it in a profile: plugins.multiPoint.enabled"
        _log.warning("plugin_not_enabled", plugin=origin.name, origin=origin.origin, advice=advice)


def _read(source: ConfigSource) -> _FileRead:
    """Everything that takes time: reading, parsing, checking; in a thread, because the disk may not answer."""
    try:
        data = bytes_of(source.path)
    except OSError as failure:
        return _FileRead(problems=(Problem("", f"cannot be read: {failure.strerror or failure}"),))
    digest = digest_of(data)
    try:
        found = source.read(data)
        unusable = unusable_extenders(found.config.configuration.extenders)
    except ConfigError as failure:
        read = _FileRead(digest, data, unexchangeable=_unexchangeable(source, data))
        return read.refused_for(tuple(_told_where(failure, source.path)))
    if unusable:
        return _FileRead(digest, data, unexchangeable=found.config).refused_for(tuple(unusable))
    return _FileRead(digest, data, found)


def _unexchangeable(source: ConfigSource, data: bytes) -> LoadedConfig | None:
    """The file without the fields that a running process takes over; `None` if it has mistakes all the same.

    Plugins are loaded again, so that the source goes on knowing their files.
    """
    left_out = EXCHANGEABLE - {"pluginSources"}
    try:
        tree = parse_yaml(data, source.path)
        if not isinstance(tree, dict):
            return None
        return source.read(
            json.dumps({key: value for key, value in tree.items() if key not in left_out}).encode()
        ).config
    except (ConfigError, TypeError, ValueError, RecursionError):
        return None


def _told_where(failure: ConfigError, path: str) -> Iterator[Problem]:
    """The problems; one of the command line says so, since no line of the file has it."""
    for problem in failure.problems:
        is_elsewhere = failure.where not in ("", path)
        yield Problem("", f"{failure.where}: {problem}") if is_elsewhere else problem
