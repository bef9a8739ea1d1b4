"""The pictures of the documentation: `make page-pictures` looks at a running scheduler with Chromium.

A cluster of 180 nodes on the embedded API server, and one of 72 nodes with GPUs; what the pictures show is what the
page said. `python -m tests.e2e.status_page.pictures gpus` draws that of the second one alone.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page

from tests.e2e.status_page import gpu_cluster, shop
from tests.e2e.status_page.browser import chromium, looking
from tests.e2e.status_page.watched import Watched, watched

FOLDER: Final = Path(__file__).parents[3] / "docs" / "status-page"
# Of a picture: letters stay sharp, and files small. Colours are chosen by coverage, so that rare ones (red) stay.
COLOURS: Final = 224
NODES, PODS = 180, 1_500
STORY: Final = "/ui/pods/analytics/report-0"
NODE: Final = "/ui/nodes/node-022"


def main(arguments: Sequence[str]) -> None:
    """Draw all of them, or those of `gpus`."""
    FOLDER.mkdir(exist_ok=True)
    if not arguments:
        _shop()
    _gpus()


def _gpus() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="kscheduler-page-") as folder,
        watched(Path(folder), gpu_cluster.nodes(), gpu_cluster.running_pods()) as scene,
        chromium() as browser,
        looking(browser, color_scheme="light", device_scale_factor=1) as (page, _),
    ):
        scene.cluster.put("pods", gpu_cluster.waiting_pods())
        scene.wait_for("/ui/", "/ui/pods/research/large-")
        page.set_viewport_size({"width": 1280, "height": 480})
        _draw(
            page,
            f"{scene.url}/ui/?by={quote(gpu_cluster.GPU, safe='')}",
            "gpus.png",
            "text=Free, of no use",
            whole=False,
        )


def _shop() -> None:
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


def _draw(page: Page, url: str, name: str, awaited: str, *, whole: bool = True) -> None:
    """`whole`: not only what the window holds."""
    page.goto(url)
    page.locator(awaited).first.wait_for(timeout=30_000)
    time.sleep(1.5)  # a second snapshot has a rate
    picture = Image.open(BytesIO(page.screenshot(full_page=whole)))
    picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(FOLDER / name, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
