# The native module. Import its names from the modules of the package that document them.

from typing import Final

__version__: Final[str]

# --- punctual.queue ------------------------------------------------------------

# --- punctual: channels ------------------------------------------------------------

# --- punctual.time ------------------------------------------------------------

# --- punctual.aio ------------------------------------------------------------

# --- punctual.server ------------------------------------------------------------
