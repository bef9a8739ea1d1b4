"""Stored objects: the versioned store, admission, defaults and deletion, and what each verb means for them. No HTTP."""
