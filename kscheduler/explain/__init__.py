"""Explanations of decisions, for people and for programs.

    questions                         a pod of a live cluster, of a file, or a new pod
    situation, outcome, rejections    its state at the API server; the outcome; which plugin rejected it
    as_json, explanation_keys         the answer for programs, by `explanation.schema.json`
    text                              the answer for people

Nothing here decides: `whatif` does, with the service's own cycle.
"""
