"""The plugin runtime: the only package that calls plugins, and the one that decides what happens when a plugin fails.

    guard            the `try` around every call; `Fate`: what becomes of the pod after a failure
    points           the table of all calls: how the answer is checked, and which fate follows a failure
    building         the factory, and the events that a plugin registers
    queue_calls      PreEnqueue, standing gates, queueing hints
    sort_order       QueueSort, with keys that can always be compared
    signing          `sign`: which parts of a pod a plugin reads
    cycle_calls      PreFilter and its extensions, Filter, PostFilter, PreScore, Score, NormalizeScore
    status_text      the meaning of a filter's codes, and details about rejected rows
    attempt_calls    Reserve, Permit, PreBind, Bind, PostBind, Unreserve
    steps            coroutines of plugins, timed step by step
    timing           the interface of a cycle's stopwatch

No other module in `scheduling`, `state` or `framework` calls a method of an extension point on a plugin or catches
what a plugin raises; a test walks the sources. `state` receives functions that never raise instead (`QueuePolicy`).

To add an extension point: add a row to `points`, and a `call_...` function beside those that run at the same time. If
the configuration can name it, also add a member to `framework.plugin.Point` and a field to `Profile`. What the class of
a plugin says about the point becomes a trait (`framework.traits`).
"""
