"""Plain numbers that mean what Prometheus' counters and histograms mean; `metrics` converts them when somebody scrapes.

The problem: fifteen observations with prometheus-client's own types (locks, label lookups) cost as much as the decision
that makes them. The idea: a histogram is a list of counts found by bisection, a labelled metric is a dict keyed by its
label values. A caller in an inner loop binds a child once (`histograms["Filter", "Success"]`) and keeps it.

Limits: one event loop; nothing here is safe across threads, so the collector copies on the loop and renders elsewhere.
"""
