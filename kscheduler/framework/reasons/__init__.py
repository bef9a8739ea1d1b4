"""Why nodes were turned down: the codes of a cycle and their text, facts beyond the text, and how both are worded."""
