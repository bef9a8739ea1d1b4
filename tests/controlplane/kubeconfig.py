"""Kubeconfig files with a bearer token, in the JSON that is also YAML."""

import json
from pathlib import Path


def write(path: Path, *, server: str, token: str = "", authority: Path | None = None) -> Path:
    """A kubeconfig with one cluster, one user and one context, all called `kscheduler-tests`.

    Without an authority the server is plain HTTP; without a token the user is anonymous.
    """
    cluster: dict[str, str] = {"server": server}
    if authority is not None:
        cluster["certificate-authority"] = str(authority)
    name = "kscheduler-tests"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    path.chmod(0o600)
    return path
