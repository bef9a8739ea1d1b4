"""What the pod of `helm test` runs; that it runs proves that the scheduler has given it a node.

With the address of the scheduler's Service it asks for health, and over HTTPS whether /metrics is shut to those who do
not say who they are. The certificate is not checked: it may be one that the process has signed itself.
"""

import ssl
import sys
import time
import urllib.error
import urllib.request

TRIES = 10
SECONDS = 3.0


def status(url: str) -> tuple[int, str]:
    """The status and the answer; 0 and the reason where there is none."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=ssl._create_unverified_context()) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(errors="replace")
    except OSError as failure:
        return 0, str(failure)


def expect(url: str, wanted: tuple[int, ...]) -> None:
    """Ask until the status is as wanted: a Service's endpoints may be a moment behind. Ends the program otherwise."""
    for _ in range(TRIES):
        code, text = status(url)
        if code in wanted:
            print(f"ok    {url} answered {code}")
            return
        time.sleep(SECONDS)
    sys.exit(f"FAIL  {url} answered {code}, expected {' or '.join(map(str, wanted))}: {text[:2000]}")


print("ok    this pod was scheduled")
for base in sys.argv[1:]:
    expect(f"{base}/livez", (200,))
    expect(f"{base}/readyz?verbose", (200,))
    if base.startswith("https:"):
        expect(f"{base}/metrics", (401, 403))
