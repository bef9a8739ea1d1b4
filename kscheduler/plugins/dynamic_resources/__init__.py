"""DynamicResources: devices that pods claim.

plugin           the extension points
pod_claims       which claims a pod has, or why it must wait for them
in_cycle         what PreFilter finds and Filter decides, for the points that follow
search           the devices for a pod's claims, node by node
events           what may help a pod that was rejected
details          which claim is not served, for explanations
"""

from kscheduler.plugins.dynamic_resources.plugin import DynamicResources as DynamicResources
