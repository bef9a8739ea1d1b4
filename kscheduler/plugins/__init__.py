"""The in-tree plugins: one plugin, one file, one shape.

Every file has the same order: name, reasons, the events after which the plugin may decide otherwise and why, what it
reads of a pod, then its extension points in cycle order. Plugins do not import each other; what two of them need is in
`framework`. `in_tree.registry` lists them all. Plugins that judge volumes have a folder of their own, `storage`.
"""
