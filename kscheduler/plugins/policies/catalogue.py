"""All policies."""

from kscheduler.framework.plugin import Plugin
from kscheduler.plugins.policies.annotation_match import AnnotationMatch
from kscheduler.plugins.policies.external_score import ExternalScore
from kscheduler.plugins.policies.load_aware import LoadAware
from kscheduler.plugins.policies.node_cost import NodeCost
from kscheduler.plugins.policies.random_score import RandomScore
from kscheduler.plugins.policies.round_robin import RoundRobin

# The plugins, which a profile may enable by name. None has an order of its own: they come where profiles put them.
POLICIES: tuple[type[Plugin], ...] = (
    RandomScore,
    RoundRobin,
    NodeCost,
    AnnotationMatch,
    LoadAware,
    ExternalScore,
)
