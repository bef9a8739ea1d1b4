"""Who makes the attempts, and how many at a time.

workers            tasks that pop a pod or group, decide, and bind
concurrency        how many pods they may hold, by how fast the API server answers
namespace_backlog  pods of namespaces whose Bindings hang, until they have a turn
"""
