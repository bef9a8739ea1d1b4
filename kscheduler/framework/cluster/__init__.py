"""What a plugin can read of the cluster through its `Handle`: counts of pods, volumes, services and controllers,
preemption. Protocols; `state` and `scheduling` implement them.
"""
