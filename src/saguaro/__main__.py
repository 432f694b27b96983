"""`python -m saguaro` is the command `saguaro`. Must not know: anything else. Tests: tests/cli/test_main.py."""

import sys

from saguaro.cli.main import main

sys.exit(main())
