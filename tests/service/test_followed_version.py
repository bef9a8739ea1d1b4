"""The rules are those of the API server's version, as far as they are known and the configuration takes them."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.aio.abandonable_calls import CallHangsError
from kscheduler.api.kinds import DEVICE_TAINT_RULES
from kscheduler.api.machinery.resources import POD_GROUPS, served_kinds
from kscheduler.api.releases import followed
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.client.access.connection import plain_connection
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.embedded.apiserver import EmbeddedAPIServer, discovery
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.server.serving import HTTPServing
from kscheduler.service import ConfigSource, followed_version
from kscheduler.service.followed_version import under_the_servers_version
from kscheduler.service.options import Options, ReadUnder
from kscheduler.service.reloading import _NotListedError
from kscheduler.service.service import App
from tests.builders import node_tree, pod_tree
from tests.service.log.reading import log_at
from tests.service.running import alone, answer, node_of, put, running, until

# What only 1.36 says of a pod that fits nowhere.
NOTHING_TO_DEALLOCATE = "no new claims to deallocate"


def reading(gates: str = "") -> ReadUnder:
    """As `kscheduler run` reads without a file."""
    reader = ConfigurationReader()

    def read(version: str, _data: bytes) -> Any:
        reader.follow(parse_feature_gates(gates, version=version))
        return reader.default()

    return read


@pytest.mark.parametrize(
    ("server", "version"),
    [
        ("v1.29.0", "1.36"),
        ("v1.36.3", "1.36"),
        ("v1.37.1-eks-4", "1.37"),
        ("v1.38.0-beta.0", "1.38"),
        ("v1.39.0", "1.38"),
        ("v2.0.0", "1.38"),
        ("unknown", None),
        ("", None),
    ],
)
def test_the_newest_that_is_not_newer_than_the_server(server: str, version: str | None) -> None:
    assert followed(server) == version


@asynccontextmanager
async def cluster(read: ReadUnder | None) -> AsyncIterator[tuple[EmbeddedAPIServer, App]]:
    """A node that is too small for all pods, and a scheduler."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="1"))
        options = Options(alone(), serving=HTTPServing.plain_on_loopback(), read_under=read)
        async with running(server, options) as (app, _, _):
            yield server, app


async def said_of_a_large_pod(server: EmbeddedAPIServer, name: str) -> str:
    """The message of its condition."""
    put(server, "pods", pod_tree(name, requests={"cpu": "9"}))

    def message() -> str:
        found = server.store.get("pods", "default", name)
        assert found is not None
        return "".join(one.get("message", "") for one in found.value.get("status", {}).get("conditions", []))

    await until(server, lambda: bool(message()))
    return message()


def serve(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """API servers that are started from now on say that they are of this release."""
    answer_of = discovery.version_info
    monkeypatch.setattr(discovery, "version_info", lambda _release: answer_of(release))


@pytest.mark.parametrize(
    ("read", "because"),
    [(reading(), "the API server is v1.37.1"), (None, "it was given: --emulated-version, or a program's own")],
    ids=["the server's", "given"],
)
async def test_the_start_says_whose_decisions_are_made_and_why(
    monkeypatch: pytest.MonkeyPatch, read: ReadUnder | None, because: str
) -> None:
    serve(monkeypatch, "v1.37.1")
    with log_at(0) as log:
        async with cluster(read) as (_, app):
            line = await log.until("scheduling")
            series = await followed_series(app)
    assert series == {"1.37": (line["decides_as"], 1.0)}, "a version that was given is no fault"
    assert line["decides_as"] == ("1.37" if read else "1.36")
    assert line["because"].startswith(because)


@pytest.mark.parametrize(("server_version", "says_so"), [("v1.36.3", True), ("v1.37.1", False)])
async def test_the_first_decision_is_by_the_servers_version(
    monkeypatch: pytest.MonkeyPatch, server_version: str, says_so: bool
) -> None:
    serve(monkeypatch, server_version)
    async with cluster(reading()) as (server, app):
        assert (NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "first")) is says_so
        version = ".".join(server_version.removeprefix("v").split(".")[:2])
        assert app.followed_version.in_force == version
        gates = (await answer(app, "/metrics"))[1]
        has_gate = 'kubernetes_feature_enabled{name="CompositePodGroup"' in gates
        assert has_gate is not says_so, "the gates are those of the version"


async def test_a_version_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, "v1.37.1")
    async with cluster(None) as (server, app):
        assert NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "first")
        assert app.followed_version.in_force == "1.36"


async def test_an_upgrade_of_the_cluster_is_followed_and_pods_wait_on() -> None:
    with log_at(0) as log:
        async with cluster(reading()) as (server, app):
            assert NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "before")
            app.parts.server_version.learn("v1.37.1")
            line = await log.until("version_followed")
            assert NOTHING_TO_DEALLOCATE not in await said_of_a_large_pod(server, "after")
            app.parts.server_version.learn("unknown")
            app.parts.server_version.learn("v1.37.2")
            assert app.parts.assembly.queue.find("default/before") is not None
    assert (line["before"], line["decides_as"]) == ("1.36", "1.37")
    assert len([each for each in log.lines() if each["msg"] == "version_followed"]) == 1


async def test_what_the_upgraded_server_serves_besides_is_read_at_once() -> None:
    """DeviceTaintRules count by the rules of 1.37; five minutes later pods would have been decided without them."""
    gates = parse_feature_gates("", version="1.37")
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", gates.enabled)) as server:
            absent = InjectedFault("answer", method="GET", path="/apis/resource.k8s.io/v1", code=404, count=1000)
            server.faults.add(absent)
            put(server, "nodes", node_tree("node"))
            options = Options(alone(), serving=HTTPServing.plain_on_loopback(), read_under=reading())
            async with running(server, options) as (app, _, _):
                await log.until("scheduling")
                assert app.parts.informers.informer(DEVICE_TAINT_RULES).resting
                server.faults.clear()
                app.parts.server_version.learn("v1.37.9")
                line = await log.until("resource_served")
                assert line["version"] == "v1"


async def test_gates_that_the_version_does_not_have_keep_the_rules_as_they_are() -> None:
    with log_at(0) as log:
        async with cluster(reading("GangScheduling=false")) as (server, app):
            assert NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "before")
            app.parts.server_version.learn("v1.37.1")
            line = await log.until("version_not_followed")
            app.parts.server_version.learn("v1.37.1")
            assert NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "after")
            status, body = await answer(app, "/readyz?verbose")
            assert status == 200
            assert "1.36's rules apply: --feature-gates: unrecognized feature gate: GangScheduling" in body
            app.parts.server_version.learn("v1.36.9")
    assert line["level"] == "error"
    assert len([each for each in log.lines() if each["msg"] == "version_not_followed"]) == 1, "once, not every time"


CORRECT = "correct the configuration or its feature gates, or give --emulated-version 1.36"


@pytest.mark.parametrize(
    ("step", "fails", "reason", "advice"),
    [
        pytest.param(
            "_threads.call",
            CallHangsError("it takes longer than 10 s"),
            "loading plugins from a file hangs: it takes longer than 10 s",
            "look what its import waits for; it is tried again at SIGHUP, or give --emulated-version 1.36",
            id="an import hangs",
        ),
        pytest.param(
            "_take_over",
            _NotListedError([Problem("", "a plugin reads jobs.batch, and there is no list of them yet")]),
            "a plugin reads jobs.batch, and there is no list of them yet",
            "look what /readyz?verbose says of that kind; it is tried again at SIGHUP, or give --emulated-version 1.36",
            id="no list",
        ),
        pytest.param(
            "_take_over",
            ConfigError([Problem("profiles[0]", "has no plugin for bind")]),
            "profiles[0]: has no plugin for bind",
            CORRECT,
            id="a mistake of the configuration",
        ),
        pytest.param(
            "_take_over",
            RuntimeError("an invariant is broken"),
            "a bug of kscheduler: RuntimeError: an invariant is broken",
            "report it with the traceback, or give --emulated-version 1.36",
            id="a bug",
        ),
    ],
)
async def test_each_reason_has_its_own_advice_and_is_logged_once_and_the_service_goes_on(
    monkeypatch: pytest.MonkeyPatch, step: str, fails: Exception, reason: str, advice: str
) -> None:
    """As often as it is tried: no later answer of the API server, and no question at SIGHUP, adds a line."""
    tries: list[str] = []

    async def fail(*_: object) -> None:
        tries.append(step)
        raise fails

    with log_at(0) as log:
        async with cluster(reading()) as (server, app):
            await said_of_a_large_pod(server, "before")
            owner, _, name = f"reloader.{step}".rpartition(".")
            with monkeypatch.context() as patched:
                patched.setattr(attrgetter(owner)(app), name, fail)
                for _ in range(3):
                    app.parts.server_version.learn("v1.37.1")
                    await settled()
                assert len(tries) == 3
                line = await log.until("version_not_followed")
                note = f"the API server runs 1.37, but 1.36's rules apply: {reason}; {advice}"
                assert note in (await answer(app, "/readyz?verbose"))[1]
                assert await followed_series(app) == {"1.37": ("1.36", 0.0)}
                assert NOTHING_TO_DEALLOCATE in await said_of_a_large_pod(server, "meanwhile")
            app.parts.server_version.learn("v1.37.1")
            await log.until("version_followed")
            assert "rules apply" not in (await answer(app, "/readyz?verbose"))[1]
            assert await followed_series(app) == {"1.37": ("1.37", 1.0)}
    assert (line["level"], line["reason"], line["advice"]) == ("error", reason, advice)
    assert len(log.named("version_not_followed")) == 1
    assert ("exc_info" in line or "Traceback" in str(line)) is isinstance(fails, RuntimeError)


async def test_another_bug_is_another_line_and_a_server_that_goes_back_ends_the_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = iter(["first", "first", "second"])

    async def fail(*_: object) -> None:
        raise RuntimeError(next(texts))

    with log_at(0) as log:
        async with cluster(reading()) as (_, app):
            await log.until("scheduling")
            monkeypatch.setattr(app.reloader, "_take_over", fail)
            for _ in range(3):
                app.parts.server_version.learn("v1.37.1")
                await settled()
            app.parts.server_version.learn("v1.36.3")
            await settled()
            assert "rules apply" not in (await answer(app, "/readyz?verbose"))[1]
            assert await followed_series(app) == {"1.36": ("1.36", 1.0)}
    reasons = [line["reason"].rpartition(" ")[2] for line in log.named("version_not_followed")]
    assert reasons == ["first", "second"]


async def settled() -> None:
    """Until what was learned has been refused, where nothing real is waited for."""
    for _ in range(20):
        await asyncio.sleep(0)


async def followed_series(app: App) -> dict[str, tuple[str, float]]:
    """By the API server's version: the version that decides, and whether that is as it should be."""
    page = (await answer(app, "/metrics"))[1]
    (info,) = re.findall(r'kscheduler_kubernetes_version_info\{decides_as="(.*)",server="(.*)"\} 1\.0', page)
    (value,) = re.findall(r"^kscheduler_kubernetes_version_followed (.*)$", page, re.MULTILINE)
    return {info[1]: (info[0], float(value))}


async def test_where_the_newest_version_is_refused_the_newest_before_it_that_is_taken_is_followed() -> None:
    """As by a process that has run through the upgrades of its cluster one by one."""
    with log_at(0) as log:
        async with cluster(reading("DynamicResourceAllocation=true")) as (server, app):
            await said_of_a_large_pod(server, "before")
            app.parts.server_version.learn("v1.38.0")
            line = await log.until("version_not_followed")
            assert (line["version"], line["decides_as"], app.followed_version.in_force) == ("1.38", "1.37", "1.37")
            status, body = await answer(app, "/readyz?verbose")
            assert status == 200
            assert "1.37's rules apply: --feature-gates: unrecognized feature gate: DynamicResourceAllocation" in body


async def test_a_server_that_keeps_its_version_to_itself_is_waited_for_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed_version, "FIRST_ANSWER_SECONDS", 0.05)
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            server.faults.add(InjectedFault("answer", path="/version", code=500, count=100))
            put(server, "nodes", node_tree("node"))
            options = Options(alone(), serving=HTTPServing.plain_on_loopback(), read_under=reading())
            async with running(server, options):
                line = await log.until("server_version_unknown")
                began = await log.until("scheduling")
                put(server, "pods", pod_tree("web"))
                await until(server, lambda: node_of(server, "web") == "node")
    assert (line["level"], line["decides_as"]) == ("warning", "1.36")
    assert began["because"] == "the API server has not reported its version: this is the default"


class Follows:
    """A service with a configuration file that 1.37 does not take while it says `# of 1.36`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.yaml"
        self.reader = ConfigurationReader()
        self.is_taken = False
        """Whether 1.37 takes it all the same."""

    def write(self, percentage: int, *, is_old: bool) -> None:
        head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        remark = "# of 1.36\n" if is_old else ""
        self.file.write_text(
            f"{remark}{head}leaderElection: {{leaderElect: false}}\npercentageOfNodesToScore: {percentage}"
        )

    def read_under(self, version: str, data: bytes) -> Any:
        if version == "1.37" and b"# of 1.36" in data and not self.is_taken:
            raise ConfigError([Problem("", "it is of 1.36")])
        return self.reader.under(parse_feature_gates("", version=version)).read_bytes(data, str(self.file))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[App]:
        path = str(self.file)
        source = ConfigSource(
            path, lambda data: self.reader.read_bytes(data, path), is_watched=False, follow=self.reader.follow
        )
        config = self.reader.read_file(path).config
        options = Options(config, source, read_under=self.read_under, serving=HTTPServing.plain_on_loopback())
        async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
            yield app


async def test_a_corrected_file_is_read_under_the_refused_version_and_another_one_under_that_in_force(
    tmp_path: Path,
) -> None:
    follows = Follows(tmp_path)
    follows.write(10, is_old=True)
    with log_at(0) as log:
        async with follows.running() as app:
            await log.until("scheduling")
            app.parts.server_version.learn("v1.37.1")
            refused = await log.until("version_not_followed")
            follows.write(20, is_old=True)
            app.reloader.ask()
            await log.until("config_taken_over")
            percentage = app.parts.assembly.config.configuration.percentage_of_nodes_to_score
            assert (percentage, app.followed_version.in_force) == (20, "1.36")
            follows.write(30, is_old=False)
            app.reloader.ask()
            line = await log.until("version_followed")
            percentage = app.parts.assembly.config.configuration.percentage_of_nodes_to_score
            assert (percentage, app.followed_version.in_force) == (30, "1.37")
            assert (await answer(app, "/readyz?verbose"))[1].count("decisions are as in") == 0
            follows.write(40, is_old=False)
            app.reloader.ask()
            async with asyncio.timeout(20):
                while app.parts.assembly.config.configuration.percentage_of_nodes_to_score != 40:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            assert app.followed_version.in_force == "1.37", "later files are read under the version in force"
    assert refused["reason"] == "it is of 1.36"
    assert (line["before"], line["decides_as"]) == ("1.36", "1.37")
    assert len([each for each in log.lines() if each["msg"] == "version_not_followed"]) == 1


async def test_querying_tries_a_refused_version_again(tmp_path: Path) -> None:
    """What the configuration could not be built of may be there by now."""
    follows = Follows(tmp_path)
    follows.write(10, is_old=True)
    with log_at(0) as log:
        async with follows.running() as app:
            await log.until("scheduling")
            app.parts.server_version.learn("v1.37.1")
            await log.until("version_not_followed")
            follows.is_taken = True
            app.reloader.ask()
            await log.until("version_followed")
            assert app.followed_version.in_force == "1.37"


GROUPS = "GenericWorkload=true"
TREES = f"{GROUPS},TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"


@asynccontextmanager
async def cluster_with_groups(gates: str) -> AsyncIterator[App]:
    """Of 1.37, with a group that must not preempt."""
    config = replace(alone(), gates=parse_feature_gates(gates, version="1.37"))
    kinds = served_kinds("1.37", lambda gate: f"{gate}=true" in gates)
    async with EmbeddedAPIServer(seed=1, kinds=kinds) as server:
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "preemptionPolicy": "Never"}
        reference = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
        group = {"metadata": {"name": "g"}, "spec": {**spec, **reference}}
        server.registry.create(POD_GROUPS, "default", group)
        options = Options(config, serving=HTTPServing.plain_on_loopback(), read_under=reading(gates))
        async with running(server, options) as (app, _, _):
            yield app


@pytest.mark.parametrize(
    ("group_apis", "gates", "told"),
    [
        pytest.param([], "", 0, id="no groups"),
        pytest.param(["scheduler-plugins"], "", 1, id="groups of another project"),
        pytest.param([], GROUPS, 1, id="groups"),
    ],
)
async def test_a_plugin_that_makes_no_room_for_groups_is_told_once_where_there_are_groups(
    group_apis: list[str], gates: str, told: int
) -> None:
    """At the start by the rules of 1.37, and not again under 1.38."""
    off = {"podGroupPostFilter": {"disabled": [{"name": "DynamicResources"}]}}
    settings = {"podGroupAPIs": group_apis, "leaderElection": {"leaderElect": False}}
    profiles = [{"schedulerName": "kscheduler", "plugins": off}]
    tree = {"apiVersion": API_VERSION, "kind": KIND, **settings, "profiles": profiles}
    reader = ConfigurationReader()

    def read(version: str, data: bytes) -> Any:
        return reader.under(parse_feature_gates(gates, version=version)).read_bytes(data, "test")

    config = read("1.37", msgspec.json.encode(tree)).config
    kinds = served_kinds("1.37", lambda gate: f"{gate}=true" in gates)
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1, kinds=kinds) as server:
            options = Options(config, serving=HTTPServing.plain_on_loopback(), read_under=read)
            async with running(server, options) as (app, _, _):
                await log.until("scheduling")
                assert len(log.named("post_filter_not_for_pod_groups")) == told
                app.parts.server_version.learn("v1.38.0")
                await log.until("version_followed", decides_as="1.38")
    lines = log.named("post_filter_not_for_pod_groups", plugin="DynamicResources", profile="kscheduler")
    assert [line["level"] for line in lines] == ["warning"] * told


async def test_groups_are_read_again_under_another_version() -> None:
    key = GroupKey("scheduling.k8s.io", "default", "g")
    with log_at(0) as log:
        async with cluster_with_groups(GROUPS) as app:
            await log.until("scheduling")
            table = app.parts.assembly.cache.pod_groups
            before = table.definition(key)
            assert before is not None
            assert before.preemption_policy == "", "without a gate of its own"
            app.parts.server_version.learn("v1.38.0")
            await log.until("version_followed")
            after = table.definition(key)
            assert after is not None
            assert after.preemption_policy == "Never"


async def test_a_version_that_reads_other_kinds_of_groups_needs_a_restart() -> None:
    with log_at(0) as log:
        async with cluster_with_groups(TREES) as app:
            await log.until("scheduling")
            app.parts.server_version.learn("v1.38.0")
            line = await log.until("version_not_followed")
            assert app.followed_version.in_force == "1.37"
    assert line["reason"] == (
        "this process does not watch compositepodgroups.v1beta1.scheduling.k8s.io, which 1.38's rules read"
    )
    restart = "restart kscheduler, which reads the API server's version before it watches"
    assert line["advice"] == f"{restart}, or give --emulated-version 1.37"


@pytest.mark.parametrize(
    ("gates", "is_given", "decides_as"),
    [(TREES, False, "1.38"), (TREES, True, "1.37"), (GROUPS, False, "1.37")],
    ids=["composite groups", "a version was given", "no composite groups"],
)
async def test_where_composite_groups_are_followed_a_start_reads_the_servers_version_first(
    monkeypatch: pytest.MonkeyPatch, gates: str, is_given: bool, decides_as: str
) -> None:
    """Else it would watch groups that a server of 1.38 does not have, and their pods would wait for ever."""
    serve(monkeypatch, "v1.38.0")
    followed_by_source: list[str] = []
    config = replace(alone(), gates=parse_feature_gates(gates, version="1.37"))
    source = ConfigSource("", attrgetter("unused"), follow=lambda gates: followed_by_source.append(gates.version))
    options = Options(config, source=source, read_under=None if is_given else reading(gates))
    async with EmbeddedAPIServer(seed=1) as server:
        found = await under_the_servers_version(options, plain_connection(server.url))
    assert found.config.gates.version == decides_as
    assert followed_by_source == (["1.38"] if decides_as == "1.38" else [])


async def test_with_composite_groups_a_start_on_a_server_of_1_38_watches_its_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(monkeypatch, "v1.38.0")
    config = replace(alone(), gates=parse_feature_gates(TREES, version="1.37"))
    kinds = served_kinds("1.38", lambda gate: f"{gate}=true" in TREES)
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1, kinds=kinds) as server:
            options = Options(config, serving=HTTPServing.plain_on_loopback(), read_under=reading(TREES))
            options = await under_the_servers_version(options, plain_connection(server.url))
            options = msgspec.structs.replace(options, config=replace(alone(), gates=options.config.gates))
            async with running(server, options) as (app, _, _):
                line = await log.until("scheduling")
                assert not app.parts.unserved_groups()
                assert app.followed_version.in_force == line["decides_as"] == "1.38"
    assert not log.named("version_not_followed")


async def test_a_server_that_does_not_answer_or_a_configuration_that_does_not_fit_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = replace(alone(), gates=parse_feature_gates(TREES, version="1.37"))

    def refuse(version: str, _data: bytes) -> Any:
        raise ConfigError((Problem("", f"not under {version}"),), "test")

    options = Options(config, read_under=refuse)
    serve(monkeypatch, "v1.38.0")
    async with EmbeddedAPIServer(seed=1) as server:
        url = server.url
        assert await under_the_servers_version(options, plain_connection(url)) is options
    options = msgspec.structs.replace(options, read_under=reading(TREES))
    assert await under_the_servers_version(options, plain_connection(url)) is options
