"""A decision told: what was asked, and what came of it.

    question, live, from_files, as_if, serving    a pod of a live cluster, of a file, or one that does not exist yet
    situation, outcome, rejections                what the API server shows of it; what came of it; who turned it down
    as_json, explanation_keys                     told to a program, by `explanation.schema.json`
    as_text, *_text, layout, printable            told to a person

Nothing here decides: `whatif` does, with the service's own cycle.
"""
