"""`python -m simile` is the command `simile`."""

import sys

from simile.cli import main

sys.exit(main())
