"""Packing: pods placed so that what stays free is of use to the pods that come after.

    best_fit                  the node on which the least is left over
    dominant_most_allocated   the node whose scarcest resource is used the most
    fragmentation_aware       the node on which the room that typical pods cannot use grows least
    device_shares             devices that several pods share: which nodes have room on one device, and on which

    device_columns            what is free on each device of each node, where a device plugin counts them
    claimable_devices         the same of devices of DRA, and what a pod takes of them
    device_shapes             one device of DRA: what is left of it, and what a request takes
    claimed_requests          what a pod's claims ask for
    typical_pods              the mix of pods that is expected

None is enabled unless a profile names it. docs/packing.md shows a profile for each, and what they gain on a public
trace.
"""

from typing import Final

from kscheduler.framework.plugin import Plugin
from kscheduler.plugins.packing.best_fit import BestFit
from kscheduler.plugins.packing.device_shares import DeviceShares
from kscheduler.plugins.packing.dominant_most_allocated import DominantMostAllocated
from kscheduler.plugins.packing.fragmentation_aware import FragmentationAware

# The plugins, which a profile may enable by name.
PACKING: Final[tuple[type[Plugin], ...]] = (BestFit, DominantMostAllocated, FragmentationAware, DeviceShares)
