"""Facts about Kubernetes by version: tables that contain no decision of this project, and import nothing of it.

    release             the release by default, and the API servers that were tried
    behaviours          what the followed versions do differently
    default_plugins     the plugins of a profile that says nothing
    extension_points    what each in-tree plugin implements
    feature_gates_*     every gate that kube-scheduler registers: stage, default, lock, needs
    other_projects      plugins of other projects that are known by name

Gates and extension points come from the Go sources: `python -m tests.controlplane.listings` prints them, and tests
marked `real` compare those of each version with its kube-scheduler's own output. Another version of Kubernetes is
another value in each table.
"""
