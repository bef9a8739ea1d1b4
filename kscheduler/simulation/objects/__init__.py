"""Stored objects: the table of kinds, the versioned store, and the meaning of each verb. No HTTP."""
