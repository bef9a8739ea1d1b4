"""Why nodes were rejected: the codes of a cycle and their text, further details, and the wording of both."""
