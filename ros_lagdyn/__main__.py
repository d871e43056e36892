# SPDX-License-Identifier: Apache-2.0
"""`python -m ros_lagdyn` is the command `lagdyn`."""

import sys

from ros_lagdyn.command_line import main

sys.exit(main())
