"""VolumeBinding: pods go where their volumes are, can be had, or can be made.

claims      which of the pod's claims are bound, and which wait for the pod to be placed
placement   Filter: on which rows bound volumes can be reached, free ones match, new ones can be made
progress    PreBind: whether what was asked for has come about
plugin      the extension points
"""

from kscheduler.plugins.storage.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
