"""What a plugin may ask about the cluster through its `Handle`: counts of pods, volumes, services and controllers,
preemption. Protocols; `state` and `scheduling` implement them.
"""
