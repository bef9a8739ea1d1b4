"""DynamicResources: devices that pods claim.

plugin           the extension points
in_cycle         what PreFilter finds and Filter decides, for the points that follow
search           the devices for a pod's claims, node by node; `allocators` makes the searches
node_result_cache  what nodes gave to equal claims before
long_evaluations  selectors that take long, evaluated in a thread
alternatives     points of nodes, by the alternatives that claims get
extended         extended resources that are backed by devices
events           what may help a pod that was rejected
details          which claim is not served, for explanations
"""

from kscheduler.plugins.dynamic_resources.plugin import DynamicResources as DynamicResources
