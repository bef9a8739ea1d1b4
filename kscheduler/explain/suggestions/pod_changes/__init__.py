"""What the pod asks for, and less of it: `pod_relaxations` lists it, `amounts` makes each change as small as may be."""
