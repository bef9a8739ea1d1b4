"""There is one object of each kind."""

import pickle

from msgspec.structs import replace

from kscheduler.api.kinds import KINDS, PODS


def test_a_kind_sent_to_another_process_is_the_one_that_is_known_there() -> None:
    assert all(pickle.loads(pickle.dumps(kind)) is kind for kind in KINDS.values())


def test_a_kind_that_is_read_otherwise_stays_so_in_another_process() -> None:
    everything = replace(PODS, field_selector="")
    sent = pickle.loads(pickle.dumps(everything))
    assert (sent.plural, sent.field_selector, sent.type) == ("pods", "", PODS.type)
