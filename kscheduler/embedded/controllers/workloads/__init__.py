"""Controllers that create pods, a file each; Deployments and Jobs need more, and have a folder."""
