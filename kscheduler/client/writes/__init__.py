"""What a scheduler writes: bindings, conditions, deletions, volumes and claims."""
