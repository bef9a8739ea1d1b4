"""Stored objects: the table of kinds, the versioned store, and what each verb means for them. No HTTP."""
