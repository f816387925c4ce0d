"""What `tools/generate.py` runs: one module a kind of file. Each returns texts by path and writes nothing."""
