"""The error of what is asked: a file, a flag or a request that cannot be used."""


class ScenarioError(ValueError):
    """A scenario cannot be read. The text is a line, `FILE:LINE: field: what is wrong`; of new objects one for each."""
