"""The embedded cluster: an API server over real HTTP that kubectl, the scheduler and the tests can talk to.

It is a product, not a mock: one versioned object store, the verbs and admission that a scheduler presupposes, watches
with history, and faults as vocabulary. Entry point: `kscheduler.simulation.apiserver.EmbeddedAPIServer`.

    resources                 the one table of served kinds
    store, watching, listing  objects, resource versions, history, what a watch sees
    registry, deletion        what a verb means: defaults, validation, finalizers, garbage
    patches, strategic_merge, server_side_apply
    handlers, watch_handler   HTTP
    discovery, openapi, tables
    faults                    what goes wrong on purpose

Limits: no authentication, no authorization, no admission webhooks, no custom resources, one API version per kind.
Controllers are absent except garbage collection, namespace emptying and the budget counting that eviction needs.
"""
