"""Claims and devices of a cluster that is imagined: claims made from templates, devices of nodes that come."""
