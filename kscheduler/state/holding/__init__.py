"""Pods that have a node and are not bound yet: held back by Permit, or in PreBind."""
