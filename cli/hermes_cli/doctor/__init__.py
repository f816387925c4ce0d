"""Looks for what is wrong: the checks are pure functions of what was found, `examination` finds it."""
