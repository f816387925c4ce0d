"""An installation of the chart, driven from outside as a person would: kubectl, helm, port-forward.

Used by the demo, the end-to-end tests and the benchmarks.
"""
