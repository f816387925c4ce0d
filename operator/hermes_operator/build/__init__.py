"""Manifests: typed facts go in, one Kubernetes object comes out."""
