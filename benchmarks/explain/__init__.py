"""What it costs to ask: what would make a pod fit, what if."""
