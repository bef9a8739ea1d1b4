"""Settings without effect: what the user set warns with its path, what nobody set is silent."""

import pytest

from kscheduler.api.releases import VERSION
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import default_configuration, dump_default, load_bytes
from kscheduler.config.other_projects import of_others
from kscheduler.config.unsupported_settings import RULES, unhonoured
from kscheduler.plugins.in_tree import registry

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def paths(text: str, version: str = VERSION) -> list[str]:
    return [
        warning.path for warning in unhonoured(load_bytes((HEAD + text).encode(), "f", FeatureGates(version=version)))
    ]


def test_defaults_warn_of_nothing_written_out_or_not() -> None:
    assert unhonoured(default_configuration()) == ()
    assert unhonoured(load_bytes(HEAD.encode(), "f")) == ()
    assert unhonoured(load_bytes(dump_default().encode(), "f")) == ()


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("profiles: [{schedulerName: mine}]", True),
        ("leaderElection: {resourceNamespace: mine}\nprofiles: [{schedulerName: mine}]", False),
        ("leaderElection: {resourceName: mine}\nprofiles: [{schedulerName: mine}]", False),
        ("leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: mine}]", False),
        ("profiles: [{schedulerName: mine}, {schedulerName: default-scheduler}]", False),
    ],
)
def test_the_lease_of_kube_scheduler_warns_where_kube_scheduler_is_not_replaced(text: str, warns: bool) -> None:
    assert paths(text) == (["leaderElection.resourceName"] if warns else [])


@pytest.mark.parametrize("elects", ["true", "false"])
def test_leader_election_is_honoured_with_all_its_fields(elects: str) -> None:
    fields = f"leaderElect: {elects}, retryPeriod: 3s, resourceName: x, leaseDuration: 20s, renewDeadline: 12s"
    assert paths(f"leaderElection: {{{fields}}}\ndelayCacheUntilActive: true") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 16", []),
        ("parallelism: 8", []),
        ("extenders: [{urlPrefix: x}, {urlPrefix: z, filterVerb: f}]", ["extenders[0]"]),
        ("extenders: []", []),
        ("extenders: [{urlPrefix: '', bindVerb: b}]", ["extenders[0].urlPrefix"]),
        ("leaderElection: {resourceName: a}\nprofiles: [{schedulerName: ' '}]", ["profiles[0].schedulerName"]),
        ("leaderElection: {resourceName: a}\nprofiles: [{schedulerName: a b}]", ["profiles[0].schedulerName"]),
        ("profiles: [{pluginConfig: [{name: ''}]}]", ["profiles[0].pluginConfig[0].name"]),
        (
            "profiles: [{plugins: {score: {disabled: [{name: NodeName}, {name: ''}, {name: '*'}]}}}]",
            ["profiles[0].plugins.score.disabled[1].name"],
        ),
        ("percentageOfNodesToScore: 50", []),
        ("profiles: [{percentageOfNodesToScore: 50}]", []),
        ("enableProfiling: true", []),
        ("enableProfiling: false", []),
        ("clientConnection: {contentType: application/vnd.kubernetes.protobuf}", []),
        ("clientConnection: {contentType: application/cbor}", ["clientConnection.contentType"]),
        ("clientConnection: {contentType: application/json}", []),
        ("clientConnection: {qps: 5, burst: 6}", []),
        ("podInitialBackoffSeconds: 2", []),
        (
            "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: DynamicResources, args: {filterTimeout: 3s}}]}]",
            [],
        ),
        (
            "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: PodGroupPodsCount}]}}}]",
            ["profiles[0].plugins.multiPoint.enabled[1]"],
        ),
        ("profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]", []),
    ],
)
def test_a_setting_warns_only_where_it_was_set_and_differs_from_what_is_done(text: str, expected: list[str]) -> None:
    assert paths(text) == expected


PROTOBUF_LIKE = "clientConnection: {contentType: application/cbor}"


def test_a_warning_says_which_field_and_why() -> None:
    (warning,) = unhonoured(load_bytes((HEAD + PROTOBUF_LIKE).encode(), "f"))
    assert str(warning) == "clientConnection.contentType: has no effect: the client speaks JSON only"


def test_whoever_builds_a_feature_takes_its_rule_out() -> None:
    loaded = load_bytes((HEAD + PROTOBUF_LIKE).encode(), "f")
    assert unhonoured(loaded, tuple(rule for rule in RULES if rule.path != "clientConnection.contentType")) == ()


UNCHECKED = "without tlsConfig.caFile or caData no certificate is checked, as in kube-scheduler"


NOBODY_CHECKED = "no certificate is verified: anyone on the path can read pods and answer for the extender"


@pytest.mark.parametrize(
    ("extender", "warning"),
    [
        ("filterVerb: f", ""),
        ("bindVerb: b, enableHTTPS: true, tlsConfig: {caFile: /ca.crt}", ""),
        ("managedResources: [{name: example.com/gpu}]", "extenders[0]: it is never called: it has no verb"),
        (
            "filterVerb: f, enableHTTPS: true",
            f"extenders[0].enableHTTPS: {UNCHECKED}",
        ),
        (
            "filterVerb: f, enableHTTPS: true, tlsConfig: {insecure: true}",
            f"extenders[0].tlsConfig.insecure: {NOBODY_CHECKED}",
        ),
        ("filterVerb: f, httpTimeout: 5m", ""),
        ("filterVerb: f, httpTimeout: -1s", "extenders[0].httpTimeout: it is negative: every call fails at once"),
        (
            "filterVerb: f, httpTimeout: 100000h",
            "extenders[0].httpTimeout: a pod may wait so long for an answer; more than 300 s is rarely meant",
        ),
        (
            "filterVerb: f, tlsConfig: {certFile: /tls.crt}",
            (
                "extenders[0].tlsConfig: no client certificate is sent: a certificate and its key are needed, "
                "and one of them is missing"
            ),
        ),
        ("filterVerb: f, tlsConfig: {certFile: /tls.crt, keyData: a2V5}", ""),
    ],
    ids=[
        *("honoured", "with an authority", "without a verb", "without an authority", "insecure"),
        *("a long call", "a negative time", "a day's time", "half a certificate", "a whole one"),
    ],
)
def test_an_extender_that_is_not_what_it_seems_warns(extender: str, warning: str) -> None:
    text = f"extenders: [{{urlPrefix: 'https://gpu.example.com/scheduler', {extender}}}]"
    assert [str(each) for each in unhonoured(load_bytes((HEAD + text).encode(), "f"))] == ([warning] if warning else [])


def test_an_extender_that_stands_there_twice_warns() -> None:
    one = "{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {caFile: /ca.crt}}"
    loaded = load_bytes((HEAD + f"extenders: [{one}, {one.replace('//x', '//y')}, {one}]").encode(), "f")
    assert [str(each) for each in unhonoured(loaded)] == [
        "extenders[2]: listed twice: it is asked twice, and its points add up"
    ]


PLAIN = "it does not encrypt: urlPrefix begins with http://, not https://"


@pytest.mark.parametrize(
    ("extender", "warnings"),
    [
        ("urlPrefix: 'http://x', filterVerb: f", []),
        ("urlPrefix: 'http://x', filterVerb: f, tlsConfig: {caFile: /ca.crt}", [f"extenders[0].tlsConfig: {PLAIN}"]),
        (
            "urlPrefix: 'http://x', filterVerb: f, enableHTTPS: true, tlsConfig: {caFile: /ca.crt}",
            [f"extenders[0].enableHTTPS: {PLAIN}"],
        ),
        (
            "urlPrefix: 'http://me:s3cret@x', filterVerb: f",
            ["extenders[0].urlPrefix: its user name and password are sent unencrypted: it begins with http://"],
        ),
        ("urlPrefix: 'https://me:s3cret@x', filterVerb: f", []),
    ],
    ids=["plain", "an authority", "HTTPS in name", "a password", "a password in TLS"],
)
def test_what_is_not_encrypted_although_it_seems_so_warns(extender: str, warnings: list[str]) -> None:
    loaded = load_bytes((HEAD + f"extenders: [{{{extender}}}]").encode(), "f")
    assert [str(each) for each in unhonoured(loaded)] == warnings


SOURCE = "{url: 'http://x', bearerTokenFile: /token, caFile: /ca.crt}"
SECURE = "{url: 'https://x', bearerTokenFile: /token, caFile: /ca.crt}"


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (f"{{name: ExternalScore, args: {SOURCE}}}", "args"),
        (f"{{name: ExternalScore, args: {SECURE}}}", ""),
        ("{name: ExternalScore, args: {url: 'http://x'}}", ""),
        (f"{{name: LoadAware, args: {{prometheus: {SOURCE}}}}}", "args.prometheus"),
        (f"{{name: LoadAware, args: {{prometheus: {SECURE}}}}}", ""),
    ],
    ids=["external", "external, TLS", "external, no token", "Prometheus", "Prometheus, TLS"],
)
def test_a_token_that_a_policy_sends_unencrypted_warns(entry: str, path: str) -> None:
    name = "LoadAware" if "LoadAware" in entry else "ExternalScore"
    queries = entry.replace("{url", "{cpuQuery: c, memoryQuery: m, url") if name == "LoadAware" else entry
    plugins = f"plugins: {{score: {{enabled: [{{name: {name}}}]}}}}"
    lease = "leaderElection: {resourceName: s}"
    text = f"{HEAD}{lease}\nprofiles: [{{schedulerName: s, {plugins}, pluginConfig: [{queries}]}}]"
    where = f"profiles[0].pluginConfig[0].{path}"
    expected = [
        f"{where}.bearerTokenFile: the token is sent unencrypted: url begins with http://",
        f"{where}.caFile: it does not encrypt: url begins with http://, not https://",
    ]
    assert [str(each) for each in unhonoured(load_bytes(text.encode(), "f"))] == (expected if path else [])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("plugins: {placementScore: {enabled: [{name: PodGroupPodsCount}]}}", "plugins.placementScore"),
        ("plugins: {placementGenerate: {disabled: [{name: '*'}]}}", "plugins.placementGenerate"),
        ("plugins: {multiPoint: {enabled: [{name: PodGroupPodsCount}]}}", "plugins.multiPoint.enabled[0]"),
        ("pluginConfig: [{name: TopologyPlacementGenerator, args: {}}]", "pluginConfig[0]"),
    ],
)
def test_settings_for_placements_of_pod_groups_warn_while_there_are_none(text: str, path: str) -> None:
    text = f"{HEAD}profiles: [{{{text}}}]"
    gates = parse_feature_gates("GenericWorkload=true,TopologyAwareWorkloadScheduling=true", version="1.37")
    (warning,) = unhonoured(load_bytes(text.encode(), "f"))
    assert warning.path == f"profiles[0].{path}"
    assert "feature gate TopologyAwareWorkloadScheduling is off" in warning.reason
    assert unhonoured(load_bytes(text.encode(), "f", gates)) == ()


def test_plugins_that_make_room_for_pod_groups_warn_while_there_are_no_pod_groups() -> None:
    text = "profiles: [{plugins: {podGroupPostFilter: {disabled: [{name: '*'}]}}}]"
    gates = parse_feature_gates("GenericWorkload=true", version="1.37")
    assert paths(text, "1.37") == ["profiles[0].plugins.podGroupPostFilter"]
    assert unhonoured(load_bytes((HEAD + text).encode(), "f", gates)) == ()


TYPING_MISTAKES = """\
profiles:
- plugins:
    filter: {disabled: [{name: NodeResourceFit}, {name: NodePorts}, {name: "*"}]}
    multiPoint: {disabled: [{name: Coscheduling}, {name: mine}]}
  pluginConfig:
  - {name: Nada, args: {x: 1}}
  - {name: Mine, args: {x: 1}}
  - {name: RandomScor}
"""


def test_names_of_plugins_that_do_not_exist_are_doubted_with_the_name_that_is_near() -> None:
    loaded = load_bytes((HEAD + TYPING_MISTAKES).encode(), "f")
    of_profile, nothing = "profiles[0].", "has no effect: no plugin is named"
    assert [str(each) for each in unhonoured(loaded, plugins=(*registry().names(), "Mine"))] == [
        f'{of_profile}pluginConfig[0].name: {nothing} "Nada"',
        f'{of_profile}pluginConfig[2].name: {nothing} "RandomScor": do you mean RandomScore?',
        f'{of_profile}plugins.filter.disabled[0].name: {nothing} "NodeResourceFit": do you mean NodeResourcesFit?',
        f'{of_profile}plugins.multiPoint.disabled[0].name: {nothing} "Coscheduling": {of_others("Coscheduling")}',
        f'{of_profile}plugins.multiPoint.disabled[1].name: {nothing} "mine": do you mean Mine?',
    ]
    assert unhonoured(loaded) == (), "who does not know the plugins doubts none"
