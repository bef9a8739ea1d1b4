"""Extenders: how they are named, whom they are asked about, and what NodeResourcesFit leaves to them."""

import re
from pathlib import Path

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.extenders import (
    deciding,
    extender_name,
    is_queried_about,
    with_ignored_resources,
    without_secrets,
)
from kscheduler.config.loader import load_bytes
from kscheduler.config.plugin_args import NodeResourcesFitArgs
from kscheduler.config.types import Extender, ExtenderManagedResource, KubeSchedulerConfiguration
from kscheduler.config.unsupported_settings import unhonoured
from tests.builders import Tree, pod_info

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GPU = "example.com/gpu"


def configuration(text: str) -> KubeSchedulerConfiguration:
    return load_bytes((HEAD + text).encode(), "f").configuration


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://gpu.example.com:8888/scheduler", "http://gpu.example.com:8888/scheduler"),
        ("https://me:secret@gpu.example.com/x", "https://gpu.example.com/x"),
        ("https://me:sec/r?et@gpu.example.com/x", "https://gpu.example.com/x"),
        ("https://gpu.example.com/x?token=secret#secret", "https://gpu.example.com/x"),
        ("me:secret@gpu.example.com", "gpu.example.com"),
        ("", "without urlPrefix"),
        ("http://a/" + "x" * 500, "http://a/" + "x" * 191),
    ],
)
def test_an_extender_is_named_without_what_is_secret(url: str, name: str) -> None:
    assert extender_name(Extender(url_prefix=url)) == name


def container(name: str = "c", **resources: Tree) -> Tree:
    return {"name": name, "resources": resources}


@pytest.mark.parametrize(
    ("spec", "queried"),
    [
        ({"containers": [container(requests={GPU: "1"})]}, True),
        ({"containers": [container(limits={GPU: "1"})]}, True),
        ({"containers": [container(requests={GPU: "0"})]}, True),
        ({"containers": [container()], "initContainers": [container("i", limits={GPU: "1"})]}, True),
        ({"containers": [container(requests={"cpu": "1"})]}, False),
        ({"containers": [container()], "resources": {"requests": {GPU: "1"}}}, False),
    ],
    ids=["requests", "limits", "even none of it", "an init container", "other resources", "the pod as a whole"],
)
def test_whoever_manages_resources_is_queried_about_pods_with_one_of_them(spec: Tree, queried: bool) -> None:
    pod = pod_info(**spec).pod
    manages = Extender(
        filter_verb="f", managed_resources=(ExtenderManagedResource(GPU), ExtenderManagedResource("x/y"))
    )
    assert is_queried_about(manages, pod) is queried
    assert is_queried_about(Extender(filter_verb="f"), pod), "who manages none is asked about all"


def test_whoever_only_binds_or_has_no_verb_decides_nothing() -> None:
    text = (
        "extenders: [{urlPrefix: a, filterVerb: f}, {urlPrefix: b, filterVerb: f, ignorable: true}, "
        "{urlPrefix: c, prioritizeVerb: p, weight: 1}, {urlPrefix: d, bindVerb: b}, {urlPrefix: e, preemptVerb: p}, "
        "{urlPrefix: f}]"
    )
    assert [one.url_prefix for one in deciding(configuration(text).extenders)] == ["a", "b", "c", "e"]


IGNORED = (
    f"extenders: [{{urlPrefix: a, managedResources: [{{name: {GPU}, ignoredByScheduler: true}}, {{name: a.b/c}}]}}]\n"
)


def test_what_is_ignored_by_the_scheduler_takes_the_place_of_what_each_profile_ignores() -> None:
    text = IGNORED + (
        "profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: NodeResourcesFit, args: "
        "{ignoredResources: [example.com/other], ignoredResourceGroups: [example.org]}}]}]"
    )
    args = [one.args("NodeResourcesFit", NodeResourcesFitArgs) for one in configuration(text).profiles]
    assert [one.ignored_resources for one in args] == [(GPU,), (GPU,)]
    assert args[1].ignored_resource_groups == ("example.org",)


def test_nothing_changes_where_nothing_is_ignored() -> None:
    whole = configuration(f"extenders: [{{urlPrefix: a, managedResources: [{{name: {GPU}}}]}}]")
    assert with_ignored_resources(whole) == (whole, [])


def test_a_profile_without_the_plugin_s_arguments_is_refused_as_upstream() -> None:
    text = IGNORED + "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]"
    message = r"f:4: profiles\[0\].pluginConfig: can't find NodeResourcesFitArgs in plugin config"
    with pytest.raises(ConfigError, match=message):
        configuration(text)


BOTH = "specifying a root certificates file with the insecure flag is not allowed"


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        ("{certData: '###'}", "extenders[0].tlsConfig.certData: illegal base64 data"),
        ("{caData: 'YWJ'}", "extenders[0].tlsConfig.caData: illegal base64 data"),
        (
            "{insecure: true, caFile: /x}",
            f"extenders[0].tlsConfig.insecure: Invalid value: true: {BOTH}",
        ),
    ],
)
def test_tls_that_no_client_can_be_made_of_is_refused(tls: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configuration(f"extenders: [{{urlPrefix: a, tlsConfig: {tls}}}]")
    assert str(caught.value) == f"f:3: {message}"


def test_a_call_takes_five_seconds_at_most_unless_reported_otherwise() -> None:
    one, other = configuration(
        "extenders: [{urlPrefix: a, httpTimeout: 0s}, {urlPrefix: b, httpTimeout: 3s}]"
    ).extenders
    assert (str(one.http_timeout), str(other.http_timeout)) == ("5s", "3s")


def test_configz_shows_neither_credentials_nor_private_keys() -> None:
    whole = configuration(
        "extenders: [{urlPrefix: 'https://me:secret@gpu.example.com/x', "
        "tlsConfig: {certData: YWJj, keyData: c2VjcmV0}}]"
    )
    (shown,) = without_secrets(whole).extenders
    assert shown.url_prefix == "https://gpu.example.com/x"
    assert shown.tls_config is not None
    assert (shown.tls_config.cert_data, shown.tls_config.key_data) == ("YWJj", "REDACTED")
    plain = configuration("extenders: [{urlPrefix: 'https://gpu.example.com/x'}]")
    assert without_secrets(plain) == plain


def test_the_example_for_operators_can_be_used_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extenders.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    loaded = load_bytes(text.encode(), "docs/extenders.md")
    assert unhonoured(loaded) == ()
    (extender,) = loaded.configuration.extenders
    assert (extender.filter_verb, extender.prioritize_verb, extender.bind_verb) == ("filter", "prioritize", "bind")
    assert extender.tls_config is not None
