"""The configuration file, exactly as kube-scheduler reads it: KubeSchedulerConfiguration v1.

The problem: a configuration that is read slightly differently leads to slightly different decisions, and a typing error
that is silently ignored leads to wrong decisions for months. The idea: one typed tree with every default written where
the field is declared, a strict reader that reports *all* mistakes at once with their field paths, and the set of fields
that the user gave, so that a setting which this service does not honour gives a warning.

    bytes --yaml_tree--> tree --decode--> types --defaults--> types --validation--> LoadedConfig

    reading         `yaml_tree` and `decode`: bytes to a tree to structs
    validation      the configuration, the plugins' arguments, names and labels
    loader          load_file, load_bytes, from_tree, default_configuration, dump_default
    expansion       from a profile's plugin sets to the plugins of each extension point
    feature_gates   the table of gates, and `--feature-gates`
    unsupported_settings  what was set and has no effect yet
    overrides       values of flags over those of the file
    changes         what a changed file may change without a restart
    reported_changes  what the log says of a changed file
    conversion      configurations and manifests of kube-scheduler and Volcano, converted to ours

Limits: plugins are names here; the caller says what they implement. Nothing here does I/O but `load_file`.
"""
