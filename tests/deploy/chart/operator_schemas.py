"""Shapes of objects whose schemas Kubernetes does not publish: the fields that we write, as operators document them.

An operator prunes a field that it does not know without a word, so a misspelt one must fail here. Strict: what the
chart may come to write has to be added.
"""

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
STRINGS: Final[Schema] = {"type": "array", "items": TEXT}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}


def shape(required: str = "", **properties: Schema) -> Schema:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


RELABELING: Final = shape(
    action={"enum": ["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep", "hashmod"]},
    sourceLabels=STRINGS,
    targetLabel=TEXT,
    regex=TEXT,
    replacement=TEXT,
    separator=TEXT,
)
SECRET_KEY: Final = shape("name key", name=TEXT, key=TEXT)
ENDPOINT: Final = shape(
    "port",
    port=TEXT,
    path=TEXT,
    scheme={"enum": ["http", "https"]},
    interval=TEXT,
    scrapeTimeout=TEXT,
    tlsConfig=shape(insecureSkipVerify={"type": "boolean"}, serverName=TEXT, caFile=TEXT, ca={"type": "object"}),
    bearerTokenFile=TEXT,
    authorization=shape(type=TEXT, credentials=SECRET_KEY),
    relabelings=listed(RELABELING),
    metricRelabelings=listed(RELABELING),
)
SELECTION: Final[dict[str, Schema]] = {
    "selector": shape("matchLabels", matchLabels=LABELS),
    "namespaceSelector": shape("matchNames", matchNames=STRINGS),
}
RULE: Final[Schema] = {
    "oneOf": [
        shape("alert expr labels annotations", alert=TEXT, expr=TEXT, labels=LABELS, annotations=LABELS)
        | {"properties": {"alert": TEXT, "expr": TEXT, "for": TEXT, "labels": LABELS, "annotations": LABELS}},
        shape("record expr", record=TEXT, expr=TEXT, labels=LABELS),
    ]
}
CERTIFICATE: Final = shape(
    "secretName issuerRef dnsNames",
    secretName=TEXT,
    duration=TEXT,
    renewBefore=TEXT,
    usages=STRINGS,
    privateKey=shape(algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]}, rotationPolicy={"enum": ["Always", "Never"]}),
    dnsNames=STRINGS,
    issuerRef=shape("name", name=TEXT, kind=TEXT, group=TEXT),
)

# Schemas of `spec`, by apiVersion and kind.
SPECS: Final[dict[tuple[str, str], Schema]] = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): shape(
        "selector endpoints", **SELECTION, endpoints=listed(ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): shape(
        "selector podMetricsEndpoints", **SELECTION, podMetricsEndpoints=listed(ENDPOINT)
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): shape(
        "groups", groups=listed(shape("name rules", name=TEXT, rules=listed(RULE)))
    ),
    ("cert-manager.io/v1", "Certificate"): CERTIFICATE,
}
