"""The file: blocks with checksums, segments, and the directory in which segments come and go. Knows no Kubernetes."""
