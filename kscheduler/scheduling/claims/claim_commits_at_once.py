"""Writing claims where no event loop runs: over a storage that never waits, each request has ended within its call.

So there are no tasks, and no requests that must follow one another: what `claim_commits` does in the background is done
when its method returns.
"""

from kscheduler.aio.synchronous import run_at_once
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.claims.claim_commits import ClaimCommits


class ClaimCommitsAtOnce(ClaimCommits):
    """Implements `framework.cluster.claim_writing.ClaimWriter`; `pre_bind` never waits (`run_at_once`)."""

    async def _commit(self, pod: PodInfo, reserved: ReservedClaim, rules: ClaimRules) -> Status:
        write = self._write_extended if reserved.mappings else self._write
        return await self._guarded(write(pod, reserved, rules), pod)

    def unreserve(self, reservation: PodReservation) -> None:
        """Give back what is pending, and what was written."""
        for reserved in reservation.claims:
            self._no_longer_pending(reserved, force=False)
            if self._must_be_undone(reservation.pod, reserved):
                run_at_once(self._undo(reservation.pod, reserved, ()))

    def free(self, deallocation: Deallocation) -> None:
        """Clear a claim's allocation."""
        run_at_once(self._free(deallocation))
