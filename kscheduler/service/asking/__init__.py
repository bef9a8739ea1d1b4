"""Questions to the running service, answered by copies of its process that can reach nothing but their answer.

live_queries       the questions of HTTP: counted, logged, with what the service knows of the pod asked about
live_copy          which copy is asked: young enough, or a new one; whose turn it is
kept_copy          one copy, as the service sees it
reaping            copies and their children end, all of them
-- in the copy --
forked             what is taken away from a copy and its children before anything else
answering_fork     takes questions, and makes a child for each
forked_service     what is compared with the service's knowledge, and who answers
query_functions    the answers
"""
