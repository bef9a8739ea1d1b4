"""Devices of Dynamic Resource Allocation: which of them a selector wants."""
