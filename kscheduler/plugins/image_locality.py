"""ImageLocality: prefer nodes that already have the pod's images.

An image counts as its size times the share of nodes that have it, so that an image present on a single node does not
draw all pods that use it to that node.
"""

from collections.abc import Hashable

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.nodes.sparse import ImageState
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo

_MIB = 1024 * 1024
# Bytes; below this sum the present images earn no points.
_MIN_THRESHOLD = 23 * _MIB
# Bytes per container; above this sum more images earn no more points.
_MAX_CONTAINER_THRESHOLD = 1000 * _MIB


class ImageLocality(Plugin):
    """Up to 100 points for the bytes that need not be pulled."""

    name = "ImageLocality"
    depends_on = (Source.ROW, Source.IMAGES)
    reads_pods = False
    reads_spec_only = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._scales_by_volumes = handle.behaviours.scales_by_image_volumes

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's images, repeats included, and the number that scales the upper threshold."""
        return tuple(sorted(pod.images)), self._scale(pod)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Bytes present on the node, scaled between the two thresholds to 0..100: int64 [rows].

        In 1.36 image volumes add to the sum but not to the upper threshold (Q29).
        """
        del cycle
        most = _MAX_CONTAINER_THRESHOLD * self._scale(pod)
        limit = most + _MIN_THRESHOLD
        states = [state for state in map(nodes.images.get, pod.images) if state is not None]
        if not states:
            return np.zeros(len(rows), dtype=np.int64)
        present = np.zeros(nodes.capacity, dtype=np.int64)
        for state in states:
            present[state.array()] += min(_spread_size(state, len(nodes)), limit)
        return _points(present[rows], most)

    def _scale(self, pod: PodInfo) -> int:
        """Containers; and volumes made of an image, where these count."""
        spec = pod.pod.spec
        containers = len(spec.init_containers) + len(spec.containers)
        if not self._scales_by_volumes:
            return containers
        return containers + sum(volume.image is not None for volume in spec.volumes)


def _spread_size(state: ImageState, num_nodes: int) -> int:
    """The size times the share of nodes: the ratio first, then the product, both float64 (scaledImageScore)."""
    return int(float(max(0, state.size)) * (float(len(state)) / float(num_nodes)))


def _points(present: Scores, most: int) -> Scores:
    """Clamped between the thresholds and scaled to 0..100; the lower threshold is tested first (calculatePriority)."""
    clamped = np.where(present < _MIN_THRESHOLD, _MIN_THRESHOLD, np.minimum(present, most))
    return MAX_NODE_SCORE * (clamped - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)
