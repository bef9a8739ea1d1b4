"""The plugins that look at volumes: binding, limits, restrictions, zones."""
