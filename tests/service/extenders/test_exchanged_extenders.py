"""Extenders over TLS, exchanged while pods are asked about, and given no pod by a process that has lost its lease."""

import asyncio
import ssl
from pathlib import Path

import pytest
import yaml

from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.election import LeaseLostError, Role
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.scheduling.attempt.extender_lines import TURNS_PER_LINE
from kscheduler.service.metrics.config_reloads import ReloadResult
from tests.builders import Tree, node_tree, pod_tree
from tests.extender_program import extender_program, leaves
from tests.server.pki import Authority
from tests.service.extenders.test_extenders_in_the_service import NAMES, scheduling
from tests.service.running import node_of, put, until
from tests.service.test_leader_election import replica, until_role
from tests.service.test_reloading import following

EXTENDERS, STRANGERS = Authority("extenders"), Authority("strangers")


def text_of(*extenders: Tree) -> str:
    tree = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "kscheduler"}],
        "extenders": list(extenders),
    }
    return yaml.safe_dump(tree)


# --- TLS --------------------------------------------------------------------------------------------------------------


def serving_context(folder: Path) -> ssl.SSLContext:
    """Of an extender that wants to see a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*EXTENDERS.serving("gpu.example").write(folder, "tls"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=EXTENDERS.pem.decode())
    return context


@pytest.mark.parametrize(
    ("authority", "server_name", "outcome"),
    [
        (EXTENDERS, "gpu.example", ""),
        (STRANGERS, "gpu.example", "certificate is not trusted"),
        (EXTENDERS, "", "certificate"),
    ],
    ids=["trusted", "another authority", "another name"],
)
async def test_tls_checks_authority_and_name(
    tmp_path: Path, authority: Authority, server_name: str, outcome: str
) -> None:
    certificate, key = EXTENDERS.client("kscheduler").write(tmp_path, "client")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    tls = {"caFile": str(tmp_path / "ca.crt"), "certFile": certificate, "keyFile": key, "serverName": server_name}
    with extender_program({"filter": leaves("b")}, tls=serving_context(tmp_path)) as program:
        async with scheduling(program.settings(**NAMES, enableHTTPS=True, tlsConfig=tls)) as world:
            world.pod("pod")
            if not outcome:
                assert await world.bound("pod") == "b"
            else:
                message = await world.rejected("pod")
                assert message.startswith(f"failed filter with extender at URL {program.url}: ")
                assert outcome in message
                (line,) = world.said("extender_failing")
                assert (line["extender"], line["verb"]) == (program.url, "filter")


# --- another configuration --------------------------------------------------------------------------------------------


async def test_extenders_are_exchanged_and_no_pod_is_lost(tmp_path: Path) -> None:
    """Those who are asked about keep the old one; those in line are asked about at the new one."""
    pods = [f"p{number}" for number in range(TURNS_PER_LINE + 20)]
    with (
        extender_program({"filter": leaves("a")}, is_open=False) as old,
        extender_program({"filter": leaves("b")}) as new,
    ):
        async with following(tmp_path, text_of(old.settings(**NAMES))) as world:
            for name in "ab":
                put(world.server, "nodes", node_tree(name))
            for name in pods:
                put(world.server, "pods", pod_tree(name))
            await world.until_true(lambda: len(old.queried) == TURNS_PER_LINE)
            connections = world.app.parts.extenders
            await world.write(text_of(new.settings(**NAMES)), ReloadResult.TAKEN_OVER)
            await until(world.server, lambda: sum(node_of(world.server, name) == "b" for name in pods) == 20)
            assert len(connections._replaced) == 1, "attempts have it"
            old.opened.set()
            await until(world.server, lambda: all(node_of(world.server, name) for name in pods))
            assert sum(node_of(world.server, name) == "a" for name in pods) == TURNS_PER_LINE
            await world.until_true(lambda: not connections._replaced)
            put(world.server, "pods", pod_tree("late"))
            await until(world.server, lambda: node_of(world.server, "late") == "b")
    assert len(old.queried) == TURNS_PER_LINE


async def test_an_extender_that_cannot_be_called_is_refused_and_the_one_before_goes_on(tmp_path: Path) -> None:
    with extender_program({"filter": leaves("node")}) as program:
        settings = program.settings(**NAMES)
        async with following(tmp_path, text_of(settings)) as world:
            missing = {**settings, "tlsConfig": {"caFile": "/no/ca.crt"}}
            await world.write(text_of({**settings, "urlPrefix": "http://169.254.169.254"}), ReloadResult.REFUSED)
            await world.write(text_of(missing), ReloadResult.REFUSED)
            refused = {line["field"]: line["reason"] for line in world.said("config_refused")}
            assert "is link-local" in refused["extenders[0].urlPrefix"]
            assert refused["extenders[0].tlsConfig.caFile"] == "/no/ca.crt: No such file or directory"
            put(world.server, "pods", pod_tree("pod"))
            await until(world.server, lambda: node_of(world.server, "pod") == "node")
        assert program.queried_about("filter") == ["pod"]


async def test_extenders_come_and_go(tmp_path: Path) -> None:
    with extender_program({"filter": leaves(reason="closed")}) as program:
        async with following(tmp_path, text_of()) as world:
            put(world.server, "pods", pod_tree("first"))
            await until(world.server, lambda: node_of(world.server, "first") == "node")
            await world.write(text_of(program.settings(**NAMES)), ReloadResult.TAKEN_OVER)
            put(world.server, "pods", pod_tree("second"))
            await world.until_true(lambda: program.queried_about("filter") == ["second"])
            await world.write(text_of(), ReloadResult.TAKEN_OVER)
            await until(world.server, lambda: node_of(world.server, "second") == "node")


async def test_a_profile_goes_and_comes_back_while_its_pod_is_queried_about(tmp_path: Path) -> None:
    """The attempt keeps its pod: it is neither let go nor tried a second time beside it."""
    with extender_program({"filter": leaves("node")}, is_open=False) as program:
        settings = program.settings(**NAMES)
        async with following(tmp_path, text_of(settings)) as world:
            put(world.server, "pods", pod_tree("pod"))
            await world.until_true(lambda: program.queried)
            other = text_of(settings).replace("schedulerName: kscheduler", "schedulerName: other")
            await world.write(other, ReloadResult.TAKEN_OVER)
            await world.write(text_of(settings), ReloadResult.TAKEN_OVER)
            program.opened.set()
            await until(world.server, lambda: node_of(world.server, "pod") == "node")
            queue = world.app.parts.assembly.queue
            await world.until_true(lambda: not queue.statistics().in_flight)
            assert (queue.statistics().active, queue.find("default/pod")) == (0, None)
        assert program.queried_about("filter") == ["pod"]


# --- a lost lease -----------------------------------------------------------------------------------------------------


async def test_a_process_that_has_lost_its_lease_gives_no_pod_to_a_binder() -> None:
    with extender_program({"filter": leaves("n"), "bind": lambda _: {}}, is_open=False) as program:
        tree = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": "kscheduler"}]}
        loaded = from_tree({**tree, "extenders": [program.settings(**NAMES)]}, "test")
        async with EmbeddedAPIServer(seed=1) as server, replica(server, loaded) as (app, _, task):
            put(server, "nodes", node_tree("n"))
            await until_role(app, Role.LEADING)
            put(server, "pods", pod_tree("pod"))
            async with asyncio.timeout(20):
                while not program.queried:  # noqa: ASYNC110  an extender in another thread tells nobody
                    await asyncio.sleep(0.005)
            assert app.parts.leadership is not None
            app.parts.leadership.fence.close()
            program.opened.set()
            with pytest.raises(LeaseLostError):
                await asyncio.wait_for(task, 20)
        assert program.queried_about("filter") == ["pod"]
        assert program.queried_about("bind") == []
