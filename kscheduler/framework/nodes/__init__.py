"""The nodes in columns: the table, one node as a plain object, what single columns keep; which rows have changed; and
tables as they would be with pods added or taken away.
"""
