"""The in-tree plugins: one plugin, one file, one shape.

Every file reads the same way: name, reasons, the events that may change its mind with the reason why, what it reads of
a pod, then its extension points in cycle order. Plugins do not know each other; what two of them need lives in
`framework`. `in_tree.registry` lists them all. Those that look at volumes have a folder of their own, `storage`.
"""
