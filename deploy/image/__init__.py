"""The image: lock files, the steps of its build, a builder for machines without a container engine, its materials.

lock            writes the lock files (`make lock`)
install         the steps that deploy/Dockerfile and `build` share
dockerfile      reads deploy/Dockerfile, so that `build` does what it says
debian_root     a root of Debian packages in place of the base image
layers          directories as layers, an image as an OCI layout: the same bytes for the same content
build           all of that (`make image`)
sbom            what an unpacked image holds, as CycloneDX (`make sbom`)
"""
