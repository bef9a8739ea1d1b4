"""A shadow: how this configuration would have decided, binding by binding, where another scheduler decides.

    informers -> ChangeBuffer     keeps changes back for a moment, in the order of the API server's writes
              -> Follower         before a binding is applied, `ShadowEvaluator` decides the pod on the view just then
              -> ShadowEvaluator  the same node? If not: would it be, had bindings in flight counted (`find_order`)?
              -> Sums             counts and examples; bounded

Nothing here writes, and no choice of ours is ever assumed: reality is applied, whatever we would have done.
"""
