"""Policies that are not in kube-scheduler: what people have written schedulers of their own for.

Each is a plugin like those in-tree: in columns, with signature and sources, so that the class engine keeps its answers.
None is enabled unless a profile names it; `catalogue` lists them. docs/policies.md shows a profile for each.
"""
