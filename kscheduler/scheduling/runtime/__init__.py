"""The plugin runtime: every call of a plugin is in here, and what happens when it fails is decided here.

    guard            the try around every call; `Fate`: what becomes of the pod
    points           the table: everything that plugins are called for, how its answer is checked, which fate follows
    building         the factory, and the events that a plugin registers
    queue_calls      PreEnqueue, standing gates, queueing hints;  sort_order  QueueSort, and keys that always compare
    signing          what a plugin reads of a pod
    cycle_calls      PreFilter, its extensions, Filter, PostFilter, PreScore, Score, normalising
    status_text      what a filter's codes mean, and more about them
    attempt_calls    Reserve, Permit, PreBind, Bind, PostBind, Unreserve;  steps  coroutines, timed step by step
    timing           what a cycle's stopwatch is told

Nobody else in `scheduling`, `state` or `framework` calls a method of an extension point on a plugin, or catches what
one raises; a test walks the sources. `state` is handed functions that never raise in their place (`QueuePolicy`).

To add an extension point: a row in `points`, and a `call_...` function beside those that run at the same time. Where
the configuration is to name it, a member of `framework.plugin.Point` and a field of `Profile`; what a plugin's class
says about it is a trait (`framework.traits`).
"""
