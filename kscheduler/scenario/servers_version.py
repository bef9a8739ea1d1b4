"""Whose rules hold for a live cluster: those of its API server's version, as far as the configuration takes them."""

from collections.abc import Callable
from dataclasses import replace

from kscheduler.api.releases import BEHAVIOURS, followed, listed, minor_of, to_try
from kscheduler.client.rest import UNKNOWN_VERSION, APIClient, server_version_of
from kscheduler.config.errors import ConfigError
from kscheduler.scenario.serving import Serving

# The configuration as a version of kube-scheduler reads it. Raises `ConfigError`.
ReadAs = Callable[[str], Serving]


async def by_the_servers_version(
    client: APIClient, served: Serving, read: ReadAs, given_version: str = "", given_by: str = ""
) -> Serving:
    """As the service on this API server would be: by its version as far as the configuration takes it, unless one was
    given. `given_by`: the flag or parameter that gives one.
    """
    reported = await server_version_of(client)
    wanted, why_not = followed(reported), ""
    if wanted is not None and not given_version:
        served, why_not = _by_version(served, read, wanted)
    its_own = ".".join(map(str, minor_of(reported) or ()))
    if served.config.gates.version == its_own:
        return replace(served, why_version=f": the API server is {reported}")
    if reported == UNKNOWN_VERSION:
        why = ": the API server does not tell its version"
    elif why_not:
        why = f": the API server is {reported}, whose rules the configuration does not fit: {why_not}"
    elif given_version:
        why = f", which {given_by} names: the API server is {reported}"
    else:
        why = f": the API server is {reported}, and followed are {listed(BEHAVIOURS)}"
    return replace(served, why_version=why, is_other_version=True)


def _by_version(served: Serving, read: ReadAs, wanted: str) -> tuple[Serving, str]:
    """As `FollowedVersion` of the service: by the wanted version, or by the nearest before it that takes the
    configuration; and why not by the wanted one.
    """
    if wanted == served.config.gates.version:
        return served, ""
    why_not = ""
    for version in to_try(wanted, served.config.gates.version):
        try:
            return read(version), why_not
        except ConfigError as refusal:
            why_not = why_not or "; ".join(str(refusal).splitlines())
    return served, why_not
