"""The browser, once for each file."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.status_page.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser
