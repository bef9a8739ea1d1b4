"""Checking that cache and queue still agree with the API server, and dumping their contents."""
