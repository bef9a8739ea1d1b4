"""Schemas and the answers of the OpenAPI page are made from the structs of the answers."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kscheduler.server.pages.published import PUBLISHED, main

KSCHEDULER = Path(__file__).parents[3] / "kscheduler"


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_is_published_is_made_from_the_structs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = PUBLISHED[name]
    assert main([name]) == 0
    made = capsys.readouterr().out
    assert (KSCHEDULER / path).read_text(encoding="utf-8") == made, (
        f"python -m kscheduler.server.pages.published {name} > kscheduler/{path}"
    )
    if name != "openapi":
        Draft202012Validator.check_schema(json.loads(made))
