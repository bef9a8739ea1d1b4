"""Makes the table of API types, `kscheduler/api/typed/api_types.txt`, from the Go types of Kubernetes.

    python -m tests.controlplane.typetable > kscheduler/api/typed/api_types.txt

The program (`main.go.txt`) runs inside a copy of the Go module that the control plane is built from, so that types and
servers are of one version. Kinds are those of `resources.py`, and those that only travel in requests.
"""
