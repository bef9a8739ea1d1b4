"""Random nodes and pods for the tables and the cache, with few names, so that things meet."""

from hypothesis import strategies as st

from tests.builders import Tree
from tests.framework.nodes.naive_columns import IMAGES, LABEL_KEYS, LABEL_VALUES

AMOUNTS = ("0", "1", "1500m", "3Gi", "9223372036854775807", "1e30", "0.5m")

labels = st.dictionaries(st.sampled_from(LABEL_KEYS[:2]), st.sampled_from(LABEL_VALUES), max_size=2)
taints = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from("xy"), "effect": st.sampled_from(["NoSchedule", "NoExecute"])}),
    max_size=2,
)
images = st.lists(
    st.fixed_dictionaries({"names": st.lists(st.sampled_from(IMAGES), max_size=3), "sizeBytes": st.integers(0, 9)}),
    max_size=2,
)
given_resources = st.dictionaries(
    st.sampled_from(["ephemeral-storage", "example.com/gpu", "storage"]), st.sampled_from(AMOUNTS), max_size=2
)
queried_resources = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi", "pods"]),
    st.sampled_from(AMOUNTS),
    max_size=3,
)
ports = st.lists(
    st.fixed_dictionaries(
        {
            "hostPort": st.sampled_from([0, 80]),
            "protocol": st.sampled_from(["", "TCP", "UDP"]),
            "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        }
    ),
    max_size=2,
)


def _node_fields(found: tuple[Tree, Tree, list[Tree], list[Tree], bool, str, list[str]]) -> Tree:
    amounts, its_labels, its_taints, its_images, unschedulable, pods, features = found
    return {
        **amounts,
        "pods": pods,
        "labels": its_labels,
        "spec": {"taints": its_taints, "unschedulable": unschedulable},
        "status": {"images": its_images, "declaredFeatures": features},
    }


# `status` of a builder is laid over its own, so the resources go in as keywords.
node_fields = st.tuples(
    given_resources,
    labels,
    taints,
    images,
    st.booleans(),
    st.sampled_from(["0", "1", "110"]),
    st.lists(st.sampled_from(["A", "B"]), max_size=2),
).map(_node_fields)
pod_fields = st.tuples(queried_resources, ports).map(
    lambda found: {"containers": [{"name": "c", "resources": {"requests": found[0]}, "ports": found[1]}]}
)
