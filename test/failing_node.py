# SPDX-License-Identifier: Apache-2.0
"""dynamics_node with a mistake: one of its methods raises after some calls.

    python failing_node.py <module>:<class>.<method> <calls> [--ros-args ...]

The module is one of ros_lagdyn.ros_node.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ros_lagdyn.ros_node.dynamics_node import main


def spoil(place: str, calls: int) -> None:
    """Let a method raise from the given number of calls on."""
    module, _, path = place.partition(':')
    name, method = path.split('.')
    owner = getattr(import_module(f'ros_lagdyn.ros_node.{module}'), name)
    sound = getattr(owner, method)  # a method of that name there must be
    left = [calls]

    def spoilt(self: Any, *arguments: Any, **given: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError('a mistake in a callback')
        return sound(self, *arguments, **given)

    setattr(owner, method, spoilt)


if __name__ == '__main__':
    spoil(sys.argv[1], int(sys.argv[2]))
    raise SystemExit(main(sys.argv[3:]))
