"""A Lease that is renewed keeps what is not ours: other programs write into it, too."""

import msgspec

from kscheduler.election.lease import LeaseRecord, body_of, lease_of

STORED = {
    "metadata": {"name": "x", "resourceVersion": "7", "labels": {"team": "a"}, "managedFields": [{}]},
    "spec": {"holderIdentity": "other", "strategy": "OldestEmulationVersion", "preferredHolder": "me", "new": [1]},
}


def test_fields_of_others_survive_a_renewal() -> None:
    lease = lease_of(STORED)
    sent = msgspec.json.decode(body_of(LeaseRecord("me", 15, "a", "r", 3), lease.metadata, lease.spec))
    assert sent["metadata"] == {"name": "x", "resourceVersion": "7", "labels": {"team": "a"}}
    assert sent["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "a",
        "renewTime": "r",
        "leaseTransitions": 3,
        "strategy": "OldestEmulationVersion",
        "preferredHolder": "me",
        "new": [1],
    }


def test_the_first_record_has_our_fields_only() -> None:
    sent = msgspec.json.decode(body_of(LeaseRecord("me", 15, "a", "r"), {"name": "x"}))
    assert set(sent["spec"]) == {
        "holderIdentity",
        "leaseDurationSeconds",
        "acquireTime",
        "renewTime",
        "leaseTransitions",
    }
