"""The custom resources of group hermes.run: one module a kind, `registry` lists them."""
