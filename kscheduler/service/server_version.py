"""The API server's version: asked for at the start and every ten minutes, as clusters are upgraded under a scheduler.

It is asked for at once when the API server answers again after it did not, which may be the end of its upgrade, and at
SIGHUP. An upgrade of several API servers behind one address may break no request: that is what the ten minutes are for.

Outside of the range of versions that this kscheduler was run on, a warning names both versions, once for each version
that is met, and `/readyz?verbose` has a note. It schedules all the same: what it reads has been stable for years, and
a scheduler that refuses to start after an upgrade of the cluster is worse than one that is not tested there.

In a control plane whose API servers are upgraded one by one the answer may go back and forth; each change is one line.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from kscheduler import __version__
from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.api.releases import NEWEST_SERVER, OLDEST_SERVER, VERSION, followed, minor_of, numbers_of
from kscheduler.client.rest import UNKNOWN_VERSION, APIClient, server_version_of
from kscheduler.telemetry.logs import get_logger

_log = get_logger("kscheduler")

AGAIN_SECONDS: Final = 600.0
# While the last question was not answered.
UNTOLD_AGAIN_SECONDS: Final = 10.0


def _do_nothing() -> None:
    """Nothing depends on it."""


class VersionToFollow:
    """The kube-scheduler version to follow, given the API server's version, and whether the configuration refuses it.

    `ServerVersion` learns of it, `FollowedVersion` puts it in force, and `ConfigReloader` has it tried again.
    """

    def __init__(self, server_version: str) -> None:
        self.wanted = followed(server_version) or ""
        """Empty: it is not known yet."""
        self.refused = ""
        """The version that the configuration does not take."""
        self._is_due = asyncio.Event()
        if self.wanted:  # an earlier term has learned it
            self._is_due.set()

    def learn(self, server_version: str) -> None:
        """The API server has told its version."""
        self.wanted = followed(server_version) or self.wanted
        self._is_due.set()

    def try_again(self) -> None:
        """A configuration was read: it may take the version that was refused."""
        self._is_due.set()

    async def until_due(self) -> str:
        """Wait until there is something to follow, or to try again; the version that is wanted, or empty."""
        await self._is_due.wait()
        self._is_due.clear()
        return self.wanted


class ServerVersion:
    """Knows the API server's version."""

    def __init__(
        self, client: APIClient, clock: Clock, known: str = "", on_change: Callable[[], None] = _do_nothing
    ) -> None:
        """`known`: what this process was told before. `on_change` is called when the answer is another one than before,
        before `to_follow` learns it.
        """
        self._client = client
        self._clock = clock
        self.text = known
        """As the API server tells it (`v1.36.3`); empty until the first answer, `unknown` while there is none."""
        self._warned_of: set[str] = set()
        self.not_followed = ""
        """The version whose rules are not followed although the API server has it, and why; empty: all is well."""
        self.to_follow = VersionToFollow(known)
        self._on_change = on_change
        self._requested = asyncio.Event()
        self._is_reported = False
        """Whether the next answer is logged, whatever it is."""

    def ask(self, *, is_reported: bool = False) -> None:
        """Ask as soon as possible. `is_reported`: log the answer, also where it is not new."""
        self._is_reported = self._is_reported or is_reported
        self._requested.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            self._requested.clear()
            is_reported, self._is_reported = self._is_reported, False
            before, answer = self.text, await server_version_of(self._client)
            self.learn(answer)
            if is_reported:
                _log.info("server_version_asked", server_version=answer, before=before or UNKNOWN_VERSION)
            pause = UNTOLD_AGAIN_SECONDS if answer == UNKNOWN_VERSION else AGAIN_SECONDS
            await finishes_within(self._requested.wait(), pause, self._clock)

    def learn(self, answer: str) -> None:
        """Take over an answer, and log what is new about it. A failed question changes nothing that is known."""
        if answer == UNKNOWN_VERSION:
            self.text = self.text or UNKNOWN_VERSION
            return
        self._take(answer)
        self.to_follow.learn(answer)

    def _take(self, answer: str) -> None:
        before, self.text = self.text, answer
        if before not in {"", UNKNOWN_VERSION, answer}:
            _log.info("server_version_changed", server_version=answer, before=before)
            self._on_change()
        problem = skew_of(answer)
        # Versions are few; a server that tells a new one each time must not fill the memory.
        if problem and answer not in self._warned_of and len(self._warned_of) < 100:
            self._warned_of.add(answer)
            reason, advice = problem
            _log.warning(
                "server_version_not_tested",
                server_version=answer,
                version=__version__,
                decides_as=followed(answer) or VERSION,
                tested=tested(),
                reason=reason,
                advice=advice,
            )

    def notes(self) -> Iterable[str]:
        """Lines for `/readyz?verbose` while the version is outside of the range, or is not followed."""
        if self.not_followed:
            yield f"the API server runs {self.not_followed}"
        problem = skew_of(self.text)
        if problem:
            ours = f"kscheduler {__version__} was tested on {tested()}"
            yield f"{ours}, the API server's version is {self.text}: {problem[0]}"


def tested() -> str:
    """The range, as in `1.35 to 1.38`."""
    return f"{OLDEST_SERVER} to {NEWEST_SERVER}"


def skew_of(server_version: str) -> tuple[str, str] | None:
    """What is wrong with a version outside of the range, and advice; `None` inside, or if it cannot be read.

    Providers append their own: `v1.35.2-gke.1000`, `v1.34.1+k3s1`.
    """
    minor = minor_of(server_version)
    if minor is None:
        return None
    if minor < numbers_of(OLDEST_SERVER):
        return (
            "the API server is older than each one that this version was run on",
            "upgrade the cluster; until then look for resources that it does not have in /readyz?verbose",
        )
    if minor > numbers_of(NEWEST_SERVER):
        return (
            "the API server is newer than each one that this version was run on",
            f"upgrade kscheduler; until then fields that are newer than {NEWEST_SERVER} count for nothing",
        )
    return None
