"""Evicting the victims of preemption, which the cycle has chosen with respect to disruption budgets."""
