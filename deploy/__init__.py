"""What ships kscheduler: manifests, the Dockerfile, and the programs that build the image."""
