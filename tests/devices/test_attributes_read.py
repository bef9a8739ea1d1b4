"""Which attributes of devices a selector may read, as far as its text shows it."""

import pytest

from kscheduler.api.device_selectors import SelectorCompiler

OWN = 'device.attributes["a.example.com"]'
READ: dict[str, tuple[str, set[str] | None]] = {
    "the driver": ('device.driver == "a.example.com"', set()),
    "a capacity": ('device.capacity["a.example.com"].memory.compareTo(quantity("1Gi")) > 0', set()),
    "a field": (f'{OWN}.model == "m"', {"model"}),
    "a key": (f'{OWN}["model"] == "m"', {"model"}),
    "two domains": (f'{OWN}.model == "m" || device.attributes["b"].size > 1', {"model", "size"}),
    "if it is there": (f"has({OWN}.model)", {"model"}),
    "an optional field": (f'{OWN}.?model.orValue("") == "m"', {"model"}),
    "an optional key": ('device.attributes[?"a.example.com"].orValue({}).size() > 0', None),
    "a name in backticks": (f'{OWN}.`my-model` == "m"', {"my-model"}),
    "in a macro": (f'["m", "n"].exists(one, {OWN}.model == one)', {"model"}),
    "a part of the value": (f'string({OWN}.model).startsWith("m")', {"model"}),
    "a method of the value": (f'{OWN}.model.matches("m.*")', {"model"}),
    "a key that is worked out": (f'{OWN}["mo" + "del"] == "m"', None),
    "all of a domain": (f"{OWN}.size() > 1", None),
    "whether a name is in a domain": (f'"model" in {OWN}', None),
    "all domains": ('"a.example.com" in device.attributes', None),
    "a domain under another name": (f'cel.bind(own, {OWN}, own.model == "m")', None),
    "a macro over a domain": (f'{OWN}.exists(name, name == "model")', None),
    "the device under another name": ('[device].all(one, one.driver == "a.example.com")', None),
}


@pytest.mark.parametrize("version", ["1.37", "1.38"])
@pytest.mark.parametrize(("expression", "read"), READ.values(), ids=READ)
def test_a_selector_tells_which_attributes_it_may_read(version: str, expression: str, read: set[str] | None) -> None:
    selector = SelectorCompiler(version).compile(expression)  # type: ignore[arg-type]
    assert selector.attributes_read == read
