"""One file per command of `kscheduler`, each with `add_parser` and `run`."""
