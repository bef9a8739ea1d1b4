"""Questions to the running service, each answered by a copy of its process that can reach nothing but its answer.

live_queries     the questions of HTTP: counted, logged, answered about the state as it is
live_copies      whose turn it is, and when the process may be forked again
answering_copy   one copy: how it sends its answer, and how the service reads it
forked           what is taken away from a copy before anything else
-- in the copy --
query_functions, page_queries, helping_changes   the answers
live_state                                       the state of the service as they see it
"""
