"""There is one object of each kind."""

import pickle

from kscheduler.api.kinds import KINDS


def test_a_kind_sent_to_another_process_is_the_one_that_is_known_there() -> None:
    assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in KINDS.values())
