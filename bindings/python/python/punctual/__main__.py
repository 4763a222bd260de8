"""`python -m punctual serve`: the same as `python -m punctual_server serve`."""

import sys

from punctual_server.__main__ import main

import punctual.server  # noqa: F401 - if the server is missing, says how to install it

if __name__ == "__main__":
    sys.exit(main())
