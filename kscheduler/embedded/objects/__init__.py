"""Stored objects: the versioned store, and the meaning of each verb. No HTTP."""
