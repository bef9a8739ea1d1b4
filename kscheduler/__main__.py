"""`python -m kscheduler` is the console script."""

import sys

from kscheduler.cli import main

sys.exit(main())
