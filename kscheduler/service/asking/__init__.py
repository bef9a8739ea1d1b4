"""Questions to the running service, each answered by a copy of its process that can reach nothing but its answer.

live_queries     the questions of HTTP: counted, logged, answered about the state as it is
live_copies      whose turn it is, and when the process may be forked again
answering_copy   one copy: how it sends its answer, and how the service reads it
forked           what is taken away from a copy before anything else
memory_headroom  whether the memory limit leaves room for a copy
query_errors     why a question is not answered, and the bounds that lead there
-- in the copy --
answers_in_copy       the answers to questions of HTTP
page_answers_in_copy  the answers to the status page
helping_changes       what would help pods that wait for the same reason, for both
live_state            the state of the service as they see it
"""
