"""Looks for what is wrong with chat accounts and webhook routes, for `hermes doctor`."""
