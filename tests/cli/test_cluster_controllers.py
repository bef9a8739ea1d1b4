"""`kscheduler cluster --controllers`."""

import pytest

from kscheduler.cli import main


def test_a_controller_that_is_not_there_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--port", "0", "--controllers", "*,-jobs"]) == 2
    message = capsys.readouterr().err
    assert "--controllers: no such controller: jobs; there are cronjob-controller, " in message
    assert "Traceback" not in message
