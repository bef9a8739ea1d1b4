"""Runs the scheduler's own cycle on copied state: objects in, results out. Nothing is written to any cluster.

scenario                             the question: a line of a file, or objects listed from a cluster
decide, decide_group                 the answer; `extenders` asks HTTP extenders, too
group_facts, membership              what is known of a pod group, and which pods wait with it
-- reading --
files, documents, object_files       from names of files to objects, each with its place for messages
cluster_input                        the whole cluster of a question, and who schedules
known_kinds, manifests               what is read of them, sorted for a scheduler
request_bodies                       the manifests in requests to the service
fields, workload_fields, unreadable  fields that are misspelt, and amounts that cannot be read
new_objects, new_pods                what does not exist yet: pods, and what makes pods
-- what controllers know --
owners, workload_pods                whose replica a pod is, and what controllers add to their pods
device_claims, device_counts         claims that are made from templates; devices by class
-- what plugins see --
listed_kinds, serving                listers over objects, and the profiles that are served
servers_version                      whose rules hold for a live cluster
"""
