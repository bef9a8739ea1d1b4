"""VolumeBinding: pods go where their volumes are, or where free volumes match or new ones can be provisioned.

claims      which of the pod's claims are bound, and which wait for the pod to be placed
placement   Filter: on which rows bound volumes can be reached, free ones match, new ones can be provisioned
progress    PreBind: whether the volumes have been bound and provisioned
plugin      the extension points
"""

from kscheduler.plugins.storage.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
