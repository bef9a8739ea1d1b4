"""The pictures of the documentation: `make page-pictures` looks at a running scheduler with Chromium.

A cluster of 180 nodes on the embedded API server; what the pictures show is what the page said.
"""

import tempfile
import time
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page

from tests.e2e.status_page import shop
from tests.e2e.status_page.browser import chromium, looking
from tests.e2e.status_page.watched import Watched, watched

FOLDER: Final = Path(__file__).parents[3] / "docs" / "status-page"
# Of a picture: letters stay sharp, and files small. Colours are chosen by coverage, so that rare ones (red) stay.
COLOURS: Final = 224
NODES, PODS = 180, 1_500
STORY: Final = "/ui/pods/analytics/report-0"
NODE: Final = "/ui/nodes/node-022"


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="kscheduler-page-") as folder,
        watched(Path(folder), shop.nodes(NODES), shop.running_pods(PODS, NODES)) as scene,
        chromium() as browser,
    ):
        _let_it_work(scene)
        for scheme in ("light", "dark"):
            with looking(browser, color_scheme=scheme, device_scale_factor=1) as (page, complaints):
                _draw(page, scene.url + "/ui/", f"overview-{scheme}.png", "text=Would fit")
                if scheme == "light":
                    _draw(page, scene.url + STORY, "pod.png", "text=What would help")
                    _draw(page, scene.url + NODE, "node.png", "#h-down")
            if complaints:
                raise SystemExit(f"the browser complains: {complaints}")


def _let_it_work(scene: Watched) -> None:
    scene.cluster.put("pods", shop.waiting_pods())
    scene.cluster.put("pods", shop.fresh_pods(40))
    scene.wait_for("/ui/", "/ui/pods/shop/")


def _draw(page: Page, url: str, name: str, awaited: str) -> None:
    page.goto(url)
    page.locator(awaited).first.wait_for(timeout=30_000)
    time.sleep(1.5)  # a second snapshot has a rate
    picture = Image.open(BytesIO(page.screenshot(full_page=True)))
    picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(FOLDER / name, optimize=True)


if __name__ == "__main__":
    main()
