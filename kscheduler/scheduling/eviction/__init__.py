"""Victims of preemption: chosen in the cycle, removed here, within their disruption budgets."""
