"""Explanations of decisions, for people and for programs.

    queries                                   a pod of a live cluster, of a file, or a new pod
    explanation                               a decision with all that is said beside it
    answer, group_answer, cluster_answers     the typed answers: JSON, its schema, text and pages are made from them
    pod_explanation, group_explanation        a decision as its answer, from rejections, devices, extenders, situation
    pod_text, node_text, group_text           the answer for people
    pending, node_use                         all pending pods by reason, and all nodes
    suggestions                               what would make a pod fit

Nothing here decides: `scenario` does, with the service's own cycle.
"""
