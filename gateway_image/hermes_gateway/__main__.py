"""Entry point of the gateway image: one image, one role a process."""

from __future__ import annotations

import argparse
import importlib

ROLES = ("gateway", "store", "models", "scripted-model")


def main() -> None:
    """Run the role named on the command line."""
    parser = argparse.ArgumentParser(prog="hermes_gateway", description=__doc__)
    parser.add_argument("--role", choices=ROLES, required=True, help="which process this is")
    role = parser.parse_args().role
    module = "scripted_model.__main__" if role == "scripted-model" else f"hermes_gateway.{role}.app"
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
