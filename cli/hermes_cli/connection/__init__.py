"""Finds the gateway: an address, a context of the configuration file, or a release on a cluster."""
