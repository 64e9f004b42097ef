"""`python -m widen.cli` is `widen`."""

import sys

from widen.cli import main

sys.exit(main())
