"""Normalisation that several plugins share (upstream's DefaultNormalizeScore)."""

import numpy as np

from kscheduler.api.well_known import MAX_NODE_SCORE
from kscheduler.framework.nodes.node_table import Scores


def default_normalize(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scale scores to 0..100 by the largest score, in int64 division; `reverse` makes the smallest the best.

    Returns int64 in the shape of `scores`. If the largest score is 0, all rows get 0, or 100 in reverse.
    """
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled
