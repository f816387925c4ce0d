"""`sandboxd.pyz`, or this folder: the daemon, or with `--search JSON` one search, with `--tree DIR` one listing."""

import sys

if __name__ == "__main__":
    if sys.argv[1:2] == ["--search"]:
        import json

        from sandboxd.search import search

        sys.exit(search(json.loads(sys.argv[2])))
    if sys.argv[1:2] == ["--tree"]:
        from sandboxd.archive import tree

        sys.exit(tree(sys.argv[2]))
    from sandboxd.start import main

    main(sys.argv[1:])
