"""Facts about Kubernetes that a configuration is checked against: tables that contain no decision of this project.

    release                   the release of Kubernetes
    feature_gates_1_36.json   every gate that kube-scheduler registers: stage, default, lock, needs
    extension_points          what each in-tree plugin implements
    other_projects            plugins of other projects that are known by name

Gates and extension points come from the Go sources: `python -m tests.controlplane.listings` prints them, and tests
marked `real` compare them with kube-scheduler's own output. Another version needs another file and a new release here.
"""
