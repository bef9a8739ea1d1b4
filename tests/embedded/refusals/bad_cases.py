"""All cases, in the order of the recording."""

from tests.embedded.refusals.bad_devices import DEVICES
from tests.embedded.refusals.bad_others import OTHERS
from tests.embedded.refusals.bad_pods import DECODING, PLACEMENT, POD_UPDATES, PODS

CASES = (*DECODING, *PODS, *PLACEMENT, *POD_UPDATES, *OTHERS, *DEVICES)
