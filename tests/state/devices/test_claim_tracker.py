"""The claim tracker: what readers see, what is pending, what counts as allocated.

Its rules one by one, then all of them against a naive model, which works everything out again after each step.
"""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.ids import AllocatedState, DeviceID, PoolID
from kscheduler.state.devices.claims import ClaimTracker

Tree = dict[str, Any]


def made(name: str = "c0", version: int = 1, *devices: str, uid: str = "", results: list[Tree] | None = None) -> Any:
    """A claim; with devices it is allocated."""
    chosen = results or [{"request": "r", "driver": "gpu", "pool": "p", "device": device} for device in devices]
    status: Tree = {"allocation": {"devices": {"results": chosen}}} if chosen else {}
    metadata = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return convert({"metadata": metadata, "status": status}, ResourceClaim)


def taken(claims: ClaimTracker) -> set[str]:
    return {device for _, _, device in claims.allocated_state().devices}


def seen(claims: ClaimTracker) -> ResourceClaim:
    """Claim `c0` as readers see it."""
    found = claims.get("default/c0")
    assert found is not None
    return found


def tracking(*known: ResourceClaim) -> ClaimTracker:
    claims = ClaimTracker()
    for claim in known:
        claims.add(claim)
    return claims


def test_readers_see_what_is_assumed_until_the_watch_shows_it_or_something_newer() -> None:
    claims = tracking(made(version=1))
    written = made("c0", 3, "d0")
    claims.assume(written)
    assert claims.get("default/c0") is written
    claims.update(made(version=2))
    assert claims.get("default/c0") is written, "the watch lags behind the answer to the write"
    assert claims.confirmed("default/c0") is not written
    shown = made("c0", 3, "d0")
    claims.update(shown)
    assert claims.get("default/c0") is shown
    claims.restore("default/c0")
    assert claims.get("default/c0") is shown, "it is confirmed, and no assumption any more"


def share(device: str = "d0", **consumed: str) -> Tree:
    amounts = {name.replace("__", "/").replace("_", "."): amount for name, amount in consumed.items()}
    own = {"request": "r", "driver": "gpu", "pool": "p", "device": device}
    return own | {"shareID": "s", "consumedCapacity": amounts}


def test_names_with_and_without_the_domain_are_joined_once_the_version_says_so() -> None:
    claims = tracking(made("c0", 1, results=[share(memory="1")]), made("c1", 1, results=[share(gpu__memory="2")]))
    device = DeviceID("gpu", "p", "d0")
    amounts = {"memory": 10**9, "gpu/memory": 2 * 10**9}
    assert claims.allocated_state().consumed[device] == amounts
    revision = claims.revision
    claims.join_names(joins=False)
    assert claims.revision == revision
    claims.join_names(joins=True)
    assert claims.allocated_state().consumed[device] == {"memory": 3 * 10**9}
    assert claims.pools_changed_since(revision) == {PoolID("gpu", "p")}
    claims.delete(made("c1", 1))
    assert claims.allocated_state().consumed[device] == {"memory": 10**9}
    claims.join_names(joins=False)
    claims.delete(made("c0", 1))
    assert claims.allocated_state() == AllocatedState(set(), {}, {})


def test_names_are_joined_where_nothing_is_held() -> None:
    claims = tracking(made())
    claims.join_names(joins=True)
    assert claims.revision == 0


def test_the_first_claim_that_takes_less_than_nothing() -> None:
    claims = tracking(made("ok", results=[share(memory="1")]), made("zero", results=[share(memory="-0")]))
    assert not claims.negative_amounts()
    claims.add(made("b", results=[share("d1", z="-1", y="-1500m"), share("d0", a="-3")]))
    first = 'claim default/b, device gpu/p/d1: consumed capacity "y" must not be negative, got -1500m'
    assert claims.negative_amounts() == first
    claims.add(made("a", results=[share(memory="-0.5Gi") | {"adminAccess": True}]))
    assert claims.negative_amounts() == (
        'claim default/a, device gpu/p/d0: consumed capacity "memory" must not be negative, got -512Mi '
        "(and 1 more claims with invalid consumed capacity)"
    )
    claims.update(made("a", 2))
    assert claims.negative_amounts() == first
    claims.delete(made("b"))
    assert not claims.negative_amounts()


def test_the_claims_that_have_changed_are_known_for_a_while() -> None:
    claims = tracking(made(version=1), made("c1", 2))
    begun = claims.changes
    assert set(claims.changed_since(begun) or ()) == set()
    claims.assume(made("c0", 3, "d0"))
    assert set(claims.changed_since(begun) or ()) == {"default/c0"}
    claims.restore("default/c0")
    claims.delete(made("c1", 4))
    assert set(claims.changed_since(begun) or ()) == {"default/c0", "default/c1"}
    assert set(claims.changed_since(begun + 2) or ()) == {"default/c1"}
    for version in range(5000):
        claims.update(made("c2", 10 + version))
    assert claims.changed_since(begun) is None, "too much to tell"
    assert set(claims.changed_since(claims.changes - 1) or ()) == {"default/c2"}


def test_versions_are_compared_as_numbers() -> None:
    claims = tracking(made(version=9))
    claims.assume(made("c0", 10, "d0"))
    claims.update(made(version=9))
    assert taken(claims) == {"d0"}


def test_an_assumption_can_be_taken_back() -> None:
    claims = tracking(made(version=1))
    claims.assume(made("c0", 2, "d0"))
    claims.restore("default/c0")
    assert seen(claims).metadata.resource_version == "1"
    assert not taken(claims)


@pytest.mark.parametrize(
    ("late", "text"),
    [
        pytest.param(made("c1", 2), '"default/c1" is gone and cannot be assumed', id="gone"),
        pytest.param(made("c0", 4), '"default/c0" is out of sync (stored: 5, assume: 4)', id="older"),
        pytest.param(made("c0", 6, uid="other"), '"default/c0" is out of sync (stored: 5, assume: 6)', id="replaced"),
    ],
)
def test_what_is_out_of_date_cannot_be_assumed(late: ResourceClaim, text: str) -> None:
    claims = tracking(made("c0", 5))
    with pytest.raises(ValueError, match=r".") as refused:
        claims.assume(late)
    assert str(refused.value) == text


def test_a_claim_that_is_made_anew_under_its_name_ends_the_assumption() -> None:
    claims = tracking(made("c0", 1))
    claims.assume(made("c0", 5, "d0"))
    claims.update(made("c0", 3, uid="new"))
    assert seen(claims).metadata.uid == "new"
    assert not taken(claims)


def test_pending_devices_are_taken_until_the_last_sharer_has_gone() -> None:
    claims = tracking(made())
    chosen = made("c0", 1, "d0")
    claims.signal_pending("uid-c0", chosen)
    claims.signal_pending("uid-c0", made("c0", 1, "d1"))
    assert claims.pending("uid-c0") is chosen
    assert taken(claims) == {"d0"}, "the second sharer uses what the first has got"
    assert seen(claims).status.allocation is None, "nothing is written"
    assert not claims.remove_pending("uid-c0", force=False)
    assert claims.remove_pending("uid-c0", force=False)
    assert not claims.remove_pending("uid-c0", force=False), "it was not pending"
    assert not taken(claims)
    assert claims.pending("uid-c0") is None


def test_by_force_all_sharers_go() -> None:
    claims = tracking(made())
    for _ in range(3):
        claims.signal_pending("uid-c0", made("c0", 1, "d0"))
    assert claims.remove_pending("uid-c0", force=True)
    assert not taken(claims)


def test_an_allocated_claim_does_not_become_pending() -> None:
    claims = tracking(made("c0", 1, "d0"))
    claims.signal_pending("uid-c0", made("c0", 1, "d1"))
    assert claims.pending("uid-c0") is None
    assert taken(claims) == {"d0"}


def test_a_written_claim_counts_once_while_it_is_pending() -> None:
    results = [
        {"request": "r", "driver": "gpu", "pool": "p", "device": "d0", "shareID": "s0", "consumedCapacity": {"m": "4"}}
    ]
    claims = tracking(made())
    claims.signal_pending("uid-c0", made(results=results))
    before = amounts(claims)
    claims.assume(made(version=2, results=results))
    assert amounts(claims) == before
    claims.remove_pending("uid-c0", force=False)
    assert amounts(claims) == before
    claims.update(made(version=3))
    assert not amounts(claims)
    assert not shares(claims)


def amounts(claims: ClaimTracker) -> dict[str, int]:
    """Of all shares of each device, in units."""
    consumed = claims.allocated_state().consumed
    return {device.device: sum(of.values()) // 10**9 for device, of in consumed.items()}


def shares(claims: ClaimTracker) -> dict[str, set[str]]:
    return {device.device: set(of) for device, of in claims.allocated_state().shared.items()}


def test_devices_with_admin_access_are_not_taken() -> None:
    results = [{"request": "r", "driver": "gpu", "pool": "p", "device": "d0", "adminAccess": True}]
    assert not taken(tracking(made(results=results)))


def test_a_shared_device_is_not_taken_but_its_shares_and_amounts_count() -> None:
    def share(name: str, amount: str) -> Tree:
        own = {"shareID": name, "consumedCapacity": {"memory": amount}}
        return {"request": "r", "driver": "gpu", "pool": "p", "device": "d0", **own}

    claims = tracking(made("c0", results=[share("s0", "1Gi")]), made("c1", results=[share("s1", "512Mi")]))
    assert not taken(claims)
    assert (shares(claims), amounts(claims)) == ({"d0": {"s0", "s1"}}, {"d0": 3 << 29})
    claims.delete(made("c0"))
    assert (shares(claims), amounts(claims)) == ({"d0": {"s1"}}, {"d0": 1 << 29})


def test_a_device_that_two_claims_hold_is_free_when_both_have_gone() -> None:
    claims = tracking(made("c0", 1, "d0"), made("c1", 1, "d0"))
    claims.delete(made("c0"))
    assert taken(claims) == {"d0"}
    claims.delete(made("c1"))
    assert not taken(claims)


def test_listeners_hear_of_what_readers_see_and_of_nothing_else() -> None:
    claims = ClaimTracker()
    heard: list[tuple[str, str]] = []

    def version(claim: ResourceClaim | None) -> str:
        return claim.metadata.resource_version if claim is not None else ""

    end = claims.on_change(lambda before, now: heard.append((version(before), version(now))))
    claims.add(made(version=1))
    claims.signal_pending("uid-c0", made("c0", 1, "d0"))
    claims.assume(made("c0", 3, "d0"))
    claims.update(made(version=2))  # the watch lags behind: nobody sees this version
    claims.remove_pending("uid-c0", force=False)
    claims.restore("default/c0")
    claims.delete(made())
    assert heard == [("", "1"), ("1", "3"), ("3", "2"), ("2", "")]
    end()
    claims.add(made(version=9))
    assert len(heard) == 4


def test_the_revision_stays_when_only_the_rest_of_an_allocation_is_another_one() -> None:
    claims = tracking(made(version=1))
    claims.signal_pending("uid-c0", made("c0", 1, "d0"))
    revision = claims.revision
    written: Tree = {"devices": {"results": [{"request": "r", "driver": "gpu", "pool": "p", "device": "d0"}]}}
    metadata = {"namespace": "default", "name": "c0", "uid": "uid-c0", "resourceVersion": "2"}
    status = {"allocation": written | {"allocationTimestamp": "2026-01-01T00:00:00Z"}}
    claims.assume(convert({"metadata": metadata, "status": status}, ResourceClaim))
    claims.remove_pending("uid-c0", force=True)
    assert claims.revision == revision, "the same device is taken by the same claim"
    assert taken(claims) == {"d0"}
    claims.update(made(version=3))
    assert claims.revision > revision
    assert taken(claims) == set()


def test_the_revision_moves_with_what_is_taken() -> None:
    claims = tracking(made())
    seen = [claims.revision]
    claims.update(made(version=2))
    assert claims.revision == seen[-1], "nothing is allocated before or after"
    claims.signal_pending("uid-c0", made("c0", 1, "d0"))
    seen.append(claims.revision)
    claims.update(made("c0", 3, "d0"))
    claims.remove_pending("uid-c0", force=False)
    claims.update(made(version=4))
    seen.append(claims.revision)
    assert seen == sorted(set(seen))


# --- against a naive model --------------------------------------------------------------------------------------------

names = st.sampled_from(["c0", "c1", "c2"])
devices = st.sampled_from(["", "d0", "d1", "d2"])


class TrackerMachine(RuleBasedStateMachine):
    """Writes of claims, a watch that lags behind, pods that reserve and give back."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = ClaimTracker()
        self.version = 0
        self.stored: dict[str, ResourceClaim] = {}
        """What the API server has."""
        self.shown: dict[str, ResourceClaim] = {}
        """What the watch has shown."""
        self.assumed: dict[str, ResourceClaim] = {}
        self.pending: dict[str, tuple[ResourceClaim, int]] = {}
        self.births = 0

    def seen(self, name: str) -> ResourceClaim | None:
        shown, assumed = self.shown.get(name), self.assumed.get(name)
        return assumed or shown

    @rule(name=names, device=devices)
    def write(self, name: str, device: str) -> None:
        """Somebody else writes a claim; the watch has not shown it yet."""
        self.version += 1
        known = self.stored.get(name)
        if known is None:
            self.births += 1
        uid = known.metadata.uid if known is not None else f"uid-{name}-{self.births}"
        self.stored[name] = made(name, self.version, *filter(None, (device,)), uid=uid)

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.stored.pop(name, None)

    @rule(name=names)
    def show(self, name: str) -> None:
        """The watch catches up, perhaps over several versions."""
        stored, shown = self.stored.get(name), self.shown.get(name)
        if stored is None:
            if shown is not None:
                self.claims.delete(shown)
                del self.shown[name]
                self.assumed.pop(name, None)
            return
        self.shown[name] = stored
        (self.claims.add if shown is None else self.claims.update)(stored)
        assumed = self.assumed.get(name)
        if assumed is not None and (
            assumed.metadata.uid != stored.metadata.uid
            or int(assumed.metadata.resource_version) <= int(stored.metadata.resource_version)
        ):
            del self.assumed[name]

    @rule(name=names, device=devices)
    def write_and_assume(self, name: str, device: str) -> None:
        if name not in self.stored:
            return
        self.write(name, device)
        answer, shown = self.stored[name], self.shown.get(name)
        if shown is None or shown.metadata.uid != answer.metadata.uid:
            with pytest.raises(ValueError, match=r"gone|out of sync"):
                self.claims.assume(answer)
            return
        self.claims.assume(answer)
        self.assumed[name] = answer

    @rule(name=names)
    def restore(self, name: str) -> None:
        self.claims.restore(f"default/{name}")
        self.assumed.pop(name, None)

    @rule(name=names, device=st.sampled_from(["d0", "d1", "d2"]))
    def reserve(self, name: str, device: str) -> None:
        claim = self.seen(name)
        if claim is None:
            return
        uid = claim.metadata.uid
        chosen = made(name, 1, device, uid=uid)
        self.claims.signal_pending(uid, chosen)
        if uid in self.pending:
            first, sharers = self.pending[uid]
            self.pending[uid] = (first, sharers + 1)
        elif claim.status.allocation is None:
            self.pending[uid] = (chosen, 1)

    @rule(data=st.data(), force=st.booleans())
    def give_back(self, data: st.DataObject, force: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pending) or ["nobody"]))
        first, sharers = self.pending.get(uid, (None, 0))
        ends = sharers == 1 or (force and sharers > 0)
        assert self.claims.remove_pending(uid, force=force) is ends
        if ends:
            del self.pending[uid]
        elif first is not None:
            self.pending[uid] = (first, sharers - 1)

    @invariant()
    def readers_see_the_newest(self) -> None:
        for name in ("c0", "c1", "c2"):
            assert self.claims.get(f"default/{name}") is self.seen(name)
            assert self.claims.confirmed(f"default/{name}") is self.shown.get(name)
        assert len(self.claims) == len(self.shown)

    @invariant()
    def what_claims_hold_is_taken(self) -> None:
        held: dict[str, ResourceClaim] = {uid: claim for uid, (claim, _) in self.pending.items()}
        for name in ("c0", "c1", "c2"):
            claim = self.seen(name)
            if claim is not None and claim.status.allocation is not None:
                held[claim.metadata.uid] = claim
        expected = {
            result.device
            for claim in held.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        }
        assert taken(self.claims) == expected
        assert {uid for uid in self.pending if self.claims.pending(uid) is self.pending[uid][0]} == set(self.pending)


TestTracker = TrackerMachine.TestCase
