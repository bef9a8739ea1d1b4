"""Reloads of policies while pods flow: none is lost, none is decided by half of a configuration."""
