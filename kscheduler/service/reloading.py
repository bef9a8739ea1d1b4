"""Reading the configuration again while the service runs: all of it is taken over, or nothing.

    file changed, SIGHUP --> read and check (in a thread) --> needs a restart? --> draft --> apply, in one step
    another API server's version, with the file in force --------------------------^ |
                                  |                                |                 |
                                  '------------ refused: one line per mistake; the configuration before goes on

The checks are those of the start and of `kscheduler config check`, and a step more: plugins are built over the live
cluster. What the file says is overlaid by the flags of the command line, as at the start. A file system that does not
answer holds up nothing: reading is given up, and tried again.

While the API server's version is not followed, because the configuration did not take it (`followed_version`), a file
is read under that version first: it may be the correction. If it is not, it is judged under the version in force.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import asdict

from kscheduler.aio.abandonable_calls import AbandonableCalls, CallHangsError
from kscheduler.aio.clock import finishes_within
from kscheduler.assembly import ApplyResult, CompiledConfiguration, group_apis
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.plugin_loading import PluginOrigin
from kscheduler.config.changes import changed_fields, restart_problems
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.reading.lines import mark_of
from kscheduler.config.unsupported_settings import SettingWarning, unhonoured
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.scheduling.profiles import Profiles, for_single_pods_only, misspelt
from kscheduler.service.config_file import LOOK_SECONDS, ConfigSource, FileChangeDetector, FileRead, read_source
from kscheduler.service.metrics.config_reloads import ReloadResult, ReloadStatistics
from kscheduler.service.options import ReadUnder
from kscheduler.service.parts import Parts
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.clean import redacted

_log = get_logger("config")

# How long a new configuration waits for the objects of kinds that its plugins read.
FIRST_LIST_SECONDS: Final = 30.0
# Of real time. Reading takes milliseconds, and seconds where a plugin file imports much.
READ_SECONDS: Final = 10.0
# Mistakes of one file that get a line each.
MAX_LOGGED: Final = 20


class _Exchange(msgspec.Struct, frozen=True):
    """A configuration that was taken over."""

    configured: Configured
    before: LoadedConfig
    """What was in force until then."""
    compiled: CompiledConfiguration
    apply_result: ApplyResult
    seconds: float
    """For which it held the loop."""


class NotFollowedError(ConfigError):
    """Another version's rules cannot be taken over, and the configuration is not to blame."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__([Problem("", reason)])
        self.advice = advice
        """What to do about it."""


class _NotListedError(ConfigError):
    """Objects that only the new plugins read have not been listed."""


class ConfigReloader:
    """Keeps the configuration in force equal to the file, as far as a running process can."""

    def __init__(
        self,
        source: ConfigSource | None,
        parts: Parts,
        origins: Iterable[PluginOrigin] = (),
        read_under: ReadUnder | None = None,
    ) -> None:
        """`source` `None`: there is no file, or it must not be read again. `origins`: of the plugins in force.
        `read_under`: reads under the rules of another version; `None`: there is one version only.
        """
        self._source = source
        self._parts = parts
        self._origins = tuple(origins)
        self._read_under = read_under
        self._threads = AbandonableCalls()
        self._has_hung = False
        """The last reading was given up: another is due, whether the files have changed or not."""
        self._to_follow = parts.server_version.to_follow
        self._requested = asyncio.Event()
        self._results: Counter[ReloadResult] = Counter()
        self._refusal = ""
        self._digest = ""
        self._since = parts.clock.time()
        known = parts.assembly.registry.names()
        self._warned: frozenset[SettingWarning] = frozenset(unhonoured(parts.assembly.config, plugins=known))
        self._for_single_pods = not_for_groups(parts.assembly.config, parts.assembly.profiles)
        """PostFilter plugins without pod groups, as the log has them."""

    @property
    def is_on(self) -> bool:
        """Whether there is a file that may be read again."""
        return self._source is not None

    def ask(self) -> None:
        """Read the file as soon as possible, whether it has changed or not."""
        self._requested.set()

    def statistics(self) -> ReloadStatistics:
        unserved = sum(self._parts.removed_profiles.waiting().values())
        return ReloadStatistics(self._since, dict(self._results), not self._refusal, self._digest, unserved)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` while a refused file waits for its correction."""
        return (self._refusal,) if self._refusal else ()

    async def run(self) -> None:
        """Follow the file until cancelled."""
        if self._source is None:
            await asyncio.get_running_loop().create_future()
            return
        source = self._source
        files = await self._patiently(lambda: FileChangeDetector(source))
        await self._reload(source, is_first=True)
        while True:
            await self._until_due(source, files)
            is_requested = self._requested.is_set()
            self._requested.clear()
            if is_requested and source.is_watched:
                with suppress(CallHangsError):  # then the file is read twice, as one that changed meanwhile
                    await self._threads.call(files.note_reading, LOOK_SECONDS)
            await self._reload(source, is_requested=is_requested)
            self._to_follow.try_again()

    async def _until_due(self, source: ConfigSource, files: FileChangeDetector) -> None:
        """Wait until somebody asks, or until a file has changed if they are watched."""
        if not source.is_watched:
            await self._requested.wait()
            return
        while not await finishes_within(self._requested.wait(), LOOK_SECONDS, self._parts.clock):
            with suppress(CallHangsError):  # a file system that does not answer: neither a change nor the end of us
                if await self._threads.call(files.has_changed, LOOK_SECONDS) or self._has_hung:
                    return

    async def _patiently(self, look: Callable[[], FileChangeDetector]) -> FileChangeDetector:
        """The first look at the files, as late as it may be."""
        while True:
            try:
                return await self._threads.call(look, READ_SECONDS)
            except CallHangsError:
                await self._parts.clock.sleep(LOOK_SECONDS)

    async def _reload(self, source: ConfigSource, *, is_requested: bool = False, is_first: bool = False) -> None:
        """Read, and take over or refuse. Never raises: whatever the file contains, the service goes on."""
        async with self._parts.exchanging:
            await self._exchange(source, is_requested=is_requested, is_first=is_first)

    async def _exchange(self, source: ConfigSource, *, is_requested: bool, is_first: bool) -> None:
        try:
            version = self._to_follow.refused
            if version and await self._exchange_under(source, version):
                return
            found = await self._read(source, source.read)
            changed = self._judge(source, found, is_requested=is_requested, is_first=is_first)
            if changed is not None and found.found is not None:
                await self._take_over_or_refuse(source, found, found.found, changed)
        except Exception as failure:  # noqa: BLE001  a boundary (`logs.caught`)
            count_caught(Boundary.CONFIG)
            _log.exception("config_reload_failed", file=source.name)
            self._refuse(source, FileRead(problems=(Problem("", f"a bug of kscheduler: {failure}"),)))

    async def _read(self, source: ConfigSource, read: Callable[[bytes], Configured]) -> FileRead:
        """The file, read in a thread; one that hangs is refused, and read again soon."""
        try:
            found = await self._threads.call(lambda: read_source(source, read), PLUGIN_TIME.at_most(READ_SECONDS))
        except CallHangsError as failure:
            was_hanging, self._has_hung = self._has_hung, True
            text = f"reading it hangs: {failure}; does its file system answer?"
            if loading := source.being_loaded():
                place = f"; it stands at {place}" if (place := source.stands_at()) else ""
                text = f"loading plugins from {loading} hangs: {failure}; what does it wait for at its import?{place}"
            return FileRead(problems=(Problem("", text),), is_reported=was_hanging)
        self._has_hung = False
        return found

    async def _exchange_under(self, source: ConfigSource, version: str) -> bool:
        """Take the file over under the rules of a version that the one in force is refused by; whether it fits."""
        read_under, assembly = self._read_under, self._parts.assembly
        assert read_under is not None  # noqa: S101  # otherwise no version is wanted
        found = await self._read(source, partial(read_under, version))
        if found.found is None or restart_problems(assembly.config, found.found.config):
            return False
        changed = self._changed(found.found)
        try:
            exchange = await self._take_over(found.found)
        except ConfigError:
            return False
        self._note_applied(source, found, exchange, changed)
        return True

    async def follow(self, version: str) -> None:
        """Take over the configuration in force under another version's rules. Raises `ConfigError`; then all stays."""
        assert self._read_under is not None  # noqa: S101  # nobody asks where there is one version only
        async with self._parts.exchanging:
            read, data = partial(self._read_under, version), self._parts.assembly.config.data
            try:
                configured = await self._threads.call(lambda: read(data), PLUGIN_TIME.at_most(READ_SECONDS))
            except CallHangsError as failure:
                loading = self._source.being_loaded() if self._source is not None else ""
                text = f"loading plugins from {loading or 'a file'} hangs: {failure}"
                raise NotFollowedError(text, "look what its import waits for; it is tried again at SIGHUP") from None
            self._check_kinds(configured.config)
            has_other_plugins = configured.origins != self._origins
            try:
                await self._take_over(configured)
            except _NotListedError as failure:
                advice = "look what /readyz?verbose says of that kind; it is tried again at SIGHUP"
                raise NotFollowedError(str(failure), advice) from None
            if has_other_plugins:
                log_plugins(configured, self._parts.assembly.profiles)
            self._log_not_for_groups()

    def _check_kinds(self, config: LoadedConfig) -> None:
        """Raises `NotFollowedError` for a kind of pod groups that only the other version's rules read."""
        watched = self._parts.group_kinds.values()
        unwatched = [api.kind.event_resource for api in group_apis(config) if api.kind not in watched]
        if unwatched:
            version = config.gates.version
            reason = f"this process does not watch {', '.join(unwatched)}, which {version}'s rules read"
            raise NotFollowedError(reason, "restart kscheduler, which reads the API server's version before it watches")

    async def _take_over_or_refuse(
        self, source: ConfigSource, found: FileRead, configured: Configured, changed: tuple[str, ...]
    ) -> None:
        try:
            exchange = await self._take_over(configured)
        except _NotListedError as failure:
            self._refuse(source, found.refused_for(tuple(failure.problems)))
        except ConfigError as failure:
            self._refuse(source, found.refused_for(self._all_problems(configured, failure)))
        else:
            self._note_applied(source, found, exchange, changed)

    async def _take_over(self, configured: Configured) -> _Exchange:
        """Exchange the configuration, all of it in one step between two decisions; the only way there is.

        It may have to wait for the first lists of kinds that only its plugins read. Raises `ConfigError`.
        """
        parts = self._parts
        listers, draft = parts.plugin_listers, parts.assembly.draft
        compiled = draft(configured.config, configured.registry)
        if listers.is_running and listers.unsynced():
            if missing := await listers.wait_for_sync(FIRST_LIST_SECONDS):
                texts = (f"a plugin reads {kind}, and there is no list of them yet" for kind in missing)
                raise _NotListedError([Problem("", text) for text in texts])
            # Drafted again over what is there now; the first is held until then: it keeps the informers going.
            compiled = draft(configured.config, configured.registry)
        began = parts.clock.monotonic()
        parts.origins, before = configured.origins, parts.assembly.config
        apply_result = parts.apply(compiled)
        seconds = parts.clock.monotonic() - began
        self._origins = configured.origins
        if self._source is not None:
            self._source.follow(compiled.config.gates)
        return _Exchange(configured, before, compiled, apply_result, seconds)

    # --- judging a file -----------------------------------------------------------------------------------------------

    def _judge(
        self, source: ConfigSource, found: FileRead, *, is_requested: bool, is_first: bool
    ) -> tuple[str, ...] | None:
        """What is to be taken over; `None`: nothing, because it is refused or says what is in force."""
        assembly, configured = self._parts.assembly, found.found
        if configured is None:
            rest = found.unexchangeable
            restart = restart_problems(assembly.config, rest) if rest is not None else ()
            self._refuse(source, found.refused_for((*found.problems, *restart)))
            return None
        changed = self._changed(configured)
        is_edited = not is_first and found.digest != self._digest  # even if the edit changes a comment only
        problems = restart_problems(assembly.config, configured.config)
        if problems:
            from kscheduler.assembly.configuration_checks import profile_problems

            unbuilt = profile_problems(configured.config, configured.registry)  # all at once: one edit can correct them
            self._refuse(source, found.refused_for((*problems, *unbuilt)))
        elif not changed and not ((is_requested or is_edited) and assembly.circuits.quarantines()):
            self._note_unchanged(source, found.digest, is_requested=is_requested, is_first=is_first)
        else:
            return changed
        return None

    def _changed(self, configured: Configured) -> tuple[str, ...]:
        """Fields, and plugins that came, went or have another content."""
        changed = frozenset(configured.origins) ^ frozenset(self._origins)
        plugins = sorted({f"plugin {origin.name}" for origin in changed})
        return (*changed_fields(self._parts.assembly.config, configured.config), *plugins)

    def _all_problems(self, configured: Configured, failure: ConfigError) -> tuple[Problem, ...]:
        """What is wrong with each profile: a draft ends at the first that cannot be built."""
        from kscheduler.assembly.configuration_checks import placed, profile_problems

        where = f"{failure.where}: " if failure.where else ""
        config = configured.config
        first = (placed(Problem("", f"{where}{problem}"), config) for problem in failure.problems)
        return profile_problems(config, configured.registry) or tuple(first)

    def _note_applied(
        self, source: ConfigSource, found: FileRead, exchange: _Exchange, changed: tuple[str, ...]
    ) -> None:
        """A file is in force now."""
        from kscheduler.config.reported_changes import reported_changes  # rarely needed, and the start is measured

        self._succeed(ReloadResult.TAKEN_OVER, found.digest)
        compiled = exchange.compiled
        changes = tuple(map(redacted, reported_changes(exchange.before, compiled.config)))
        fields = {name: value for name, value in {"changes": changes, **asdict(exchange.apply_result)}.items() if value}
        profiles, seconds = sorted(compiled.profiles), round(exchange.seconds, 3)
        _log.info(
            "config_taken_over", file=source.name, hash=found.digest, changed=changed, profiles=profiles, **fields,
            seconds=seconds,
        )  # fmt: skip
        log_plugins(exchange.configured, compiled.profiles)
        self._log_not_for_groups()
        warnings = unhonoured(compiled.config, plugins=compiled.registry.names())
        for warning in warnings:
            if warning not in self._warned:
                _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        self._warned = frozenset(warnings)

    def _log_not_for_groups(self) -> None:
        """What is new of it."""
        before, assembly = self._for_single_pods, self._parts.assembly
        self._for_single_pods = not_for_groups(assembly.config, assembly.profiles)
        log_not_for_groups(self._for_single_pods - before)

    def _note_unchanged(self, source: ConfigSource, digest: str, *, is_requested: bool, is_first: bool) -> None:
        if is_first:
            self._digest = digest  # the file of the start, whose name was not known so far
            return
        was_refused = bool(self._refusal)
        self._succeed(ReloadResult.UNCHANGED, digest)
        if is_requested or was_refused:
            _log.info("config_unchanged", file=source.name, hash=digest)

    def _succeed(self, result: ReloadResult, digest: str) -> None:
        self._results[result] += 1
        self._refusal, self._digest = "", digest
        self._since = self._parts.clock.time()

    def _refuse(self, source: ConfigSource, found: FileRead) -> None:
        if found.is_reported:
            return
        self._results[ReloadResult.REFUSED] += 1
        problems = found.problems
        for problem in problems[:MAX_LOGGED]:
            mark = mark_of(problem.path)
            place = (
                {"line": problem.line, "field": problem.path} if mark is None else {"line": mark[0], "column": mark[1]}
            )
            given = {name: value for name, value in place.items() if value}
            _log.error("config_refused", file=source.name, **given, reason=problem.message)
        in_force = self._digest or "as at the start"
        _log.error("config_kept", file=source.name, problems=len(problems), hash=found.digest, in_force=in_force)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        self._refusal = f"configuration: {source.name} was refused, the one before goes on: {problems[0]}{more}"


def log_plugins(configured: Configured, profiles: Profiles) -> None:
    """Say which custom plugins are loaded, from where, which of them no profile enables, and what is misspelt."""
    for origin in configured.origins:
        _log.info("plugin_loaded", plugin=origin.name, origin=origin.origin, hash=origin.digest)
    for origin in configured.unused:
        advice = "name it in a profile: plugins.multiPoint.enabled"
        _log.warning("plugin_not_enabled", plugin=origin.name, origin=origin.origin, advice=advice)
    for plugin, text in misspelt(profiles.values()):
        _log.warning("plugin_misspelt", plugin=plugin, reason=text)


def not_for_groups(config: LoadedConfig, profiles: Profiles) -> frozenset[tuple[str, str, str]]:
    """PostFilter plugins that pod groups do not have, where there may be groups: profile, plugin, and why."""
    return frozenset(for_single_pods_only(profiles.values())) if group_apis(config) else frozenset()


def log_not_for_groups(found: frozenset[tuple[str, str, str]]) -> None:
    """A line for each: its author may believe that it makes room for gangs."""
    for profile, plugin, reason in sorted(found):
        _log.warning("post_filter_not_for_pod_groups", profile=profile, plugin=plugin, reason=reason)
