"""Controllers that keep nodes, pods and budgets in order."""
