"""The plugins that judge volumes: binding, limits, restrictions, zones."""
