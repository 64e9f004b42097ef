"""`python -m widen` is `widen`."""

import sys

from widen.cli import main

sys.exit(main())
