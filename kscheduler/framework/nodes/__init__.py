"""The nodes in columns: the table, a node as a plain object, the helpers of single columns, the logs of changed rows,
and tables as they would be with pods added or removed.
"""
