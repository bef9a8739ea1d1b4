"""Devices: claims from templates, claims that nobody needs any more, a driver of hollow devices, their taints."""
