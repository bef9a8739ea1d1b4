"""The system's Chromium, driven by playwright; what the page complains of there is kept and must be nothing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH, HEIGHT = 1440, 900


def program() -> str:
    """Where it is. Skips where there is none, except in CI, which installs it."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), "")
    if not found and "KSCHEDULER_CI" in os.environ:
        pytest.fail("Chromium is missing: .ci/run installs it")
    if not found:
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window. Root, as in CI, has no sandbox there."""
    path = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Complaints(list[str]):
    """What the console says: failed requests, violated policies, errors of scripts."""

    def listen_to(self, page: Page) -> None:
        """Keep what this page's console says."""

        def on_message(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                self.append(f"{message.type}: {message.text}")

        page.on("console", on_message)
        page.on("pageerror", lambda error: self.append(f"script: {error}"))


@contextmanager
def looking(browser: Browser, **settings: Any) -> Iterator[tuple[Page, Complaints]]:
    """A page of a fresh profile. `settings`: as for a playwright context (`java_script_enabled`, `color_scheme`)."""
    context = browser.new_context(**{"viewport": {"width": WIDTH, "height": HEIGHT}, **settings})
    complaints = Complaints()
    try:
        page = context.new_page()
        complaints.listen_to(page)
        yield page, complaints
    finally:
        context.close()
