"""VolumeBinding: pods go where their volumes are, or where free volumes match or new ones can be provisioned.

claims      which of the pod's claims are bound, and which wait for the pod to be placed
placement   Filter: on which rows bound volumes can be reached, free ones match, new ones can be provisioned
reach       from which rows a volume's node affinity and topology can be reached
scoring     Score: how well the chosen volumes and capacities fit
plugin      the extension points; in PreBind, whether the volumes have been bound and provisioned
events      what may help a pod that was rejected
details     which claim or volume stands in the way, for explanations
"""

from kscheduler.plugins.storage.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
