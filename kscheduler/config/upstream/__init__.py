"""Facts about Kubernetes that a configuration is judged by: tables without a decision of our own.

    release                   which Kubernetes that is
    feature_gates_1_36.json   every gate that kube-scheduler registers: stage, default, lock, needs
    extension_points          what each in-tree plugin implements
    other_projects            plugins that are known by name, and whose they are

Gates and extension points come from the Go sources: `python -m tests.controlplane.listings` prints them, and tests that
are marked `real` compare them with kube-scheduler's own output. One more version is one more file, and another release.
"""
