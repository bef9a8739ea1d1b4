"""The plugin runtime: the only package that calls plugins, and the one that decides what happens when a plugin fails.

    guard            the `try` around every call but those of in-tree `sign` and `sort_key`; `FailureOutcome`: what
                     becomes of the pod after a failure
    points           the table of all calls: how the answer is checked, and what a failure leads to
    lifecycle_calls  the factory, the events that a plugin registers, and `close` at the end
    queue_calls      PreEnqueue, standing gates, queueing hints
    sort_keys        QueueSort, with keys that can always be compared
    sign_calls       `sign`, which says which parts of a pod a plugin reads
    cycle_calls      PreFilter and its extensions, Filter, PostFilter, PreScore, Score, NormalizeScore
    partial_results  what becomes of a user's score that fails: nodes without points, and the report of it
    status_text      the meaning of a filter's codes, and details about rejected rows
    attempt_calls    Reserve, Permit, PreBind, Bind, PostBind, Unreserve
    timing           the stopwatch of a cycle, and of coroutines step by step

No other module in `scheduling`, `state` or `framework` calls a method of an extension point on a plugin or catches
what a plugin raises; a test walks the sources. `state` receives functions that never raise instead (`QueuePolicy`).

To add an extension point:

    for all points            a protocol in `framework.plugin`, its parameters in `framework.plugin_contract`, a row in
                              `points`, and a `call_...` function beside those that run at the same time
    named in configurations   a member of `Point`, a key of `config.expansion.POINTS` and of `config.types.Plugins`, a
                              field of `Profile` that `profiles` fills
    judging or scoring        the lists of methods in `framework.traits`, so that a subclass that overrides it does not
                              share what its parent signs

`tests/scheduling/runtime/test_extension_points.py` says which of these was forgotten.
"""
