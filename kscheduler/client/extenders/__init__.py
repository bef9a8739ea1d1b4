"""Calls to HTTP extenders: one POST of JSON each, to an address that the configuration names."""
