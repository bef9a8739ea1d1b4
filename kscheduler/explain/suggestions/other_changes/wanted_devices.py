"""The claims of a pod, and whether it needs devices."""

from collections.abc import Iterator

from kscheduler.api.devices import ResourceClaim
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimNotReadyError, named_claims


def claims_of_pod(trials: Trials) -> Iterator[tuple[str, ResourceClaim]]:
    """Each with the name of its entry, up to the first that is not there."""
    try:
        yield from named_claims(trials.pod.pod, trials.cache.devices.claims)
    except ClaimNotReadyError:
        return  # the pod waits for the claim; nothing in it can help


def wants_devices(trials: Trials) -> bool:
    """Whether the pod needs devices that it does not have yet."""
    wants = any(claim.status.allocation is None for _, claim in claims_of_pod(trials))
    return wants or trials.cache.devices.serve(trials.pod)
