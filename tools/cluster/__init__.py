"""The local Kubernetes cluster: kind, with or without container registries (docs/local-cluster.md)."""
