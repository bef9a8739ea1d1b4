"""Claims to devices after the decision: writing them, waiting for their devices, giving them back.

    claim_commits           what DynamicResources asks for, in tasks that outlive a cancelled PreBind;
                            also waiting for devices to be ready, and giving allocations back
    claim_commits_at_once   the same over a storage that never waits, where no event loop runs
    claim_write             one write of one claim, until its outcome is certain
    claim_storage           the API server as these modules see it, and how its failures read

The decision itself is in the plugin; what is allocated is known to `state.devices`.
"""
