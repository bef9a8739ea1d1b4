"""The errors of what is asked: a file, a flag, a request or an object that cannot be used."""


class ScenarioError(ValueError):
    """A scenario cannot be read. The text is a line, `FILE:LINE: field: what is wrong`; of new objects one for each."""


class ClusterError(ValueError):
    """What was given cannot be used: a file, a field, an object, a configuration; or a cluster could not be read.

    The text has a line for each mistake, which begins with its place: `pods[3]`, `dump.yaml: document 2`,
    `configuration: profiles[0].plugins`.
    """
