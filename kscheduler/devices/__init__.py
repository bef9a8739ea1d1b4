"""Devices: what claims ask for, and which devices they get."""
