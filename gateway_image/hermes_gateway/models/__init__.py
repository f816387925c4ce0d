"""Role `models`: the only holder of provider keys and the only importer of provider SDKs."""
