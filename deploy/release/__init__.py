"""A release: everything that is made of one commit, with checksums and a statement about how it was made.

build           `make release`
distributions   the wheel, the source distribution and the chart's package, from what is committed
wheel_sbom      what the wheel needs, as CycloneDX
provenance      the files, the commit and the materials, as an in-toto statement with SLSA's predicate
"""
