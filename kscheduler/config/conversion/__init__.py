"""Files of earlier versions and of other schedulers, turned into ours.

The problem: who changes to kscheduler has a file that it does not read: a KubeSchedulerConfiguration of v1beta3 or
older, a policy file (Kubernetes up to 1.22), a configuration of scheduler-plugins or Volcano, each alone or in a
ConfigMap; or only the manifest that starts kube-scheduler. Most of it means something here. The idea: such a file is
read into a tree that knows its lines; what has a meaning here is written as a KubeSchedulerConfiguration v1 (of a
manifest, as a manifest), and everything else is listed by name and line.

    located      a tree whose fields and items know their lines
    sources      finds the configuration in a file: documents, lists, ConfigMaps
    profiles     a profile that is being written, and what its plugins of earlier versions and other projects become
    versions     KubeSchedulerConfiguration v1alpha1 to v1beta3, and v1 with plugins of others
    policies     the Policy kind: predicates, priorities, extenders
    manifests    a static pod or a workload that runs kube-scheduler: ours in its place, with its flags
    volcano      actions and tiers of plugins
    converting   all of them, and a last look: what the result's own check refuses is left out, too
"""
