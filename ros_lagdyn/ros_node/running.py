# SPDX-License-Identifier: Apache-2.0
"""Run a node as a process: arguments, signals, a clean end."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from ros_lagdyn.errors import InvalidArgumentError, LagdynError
from ros_lagdyn.ros_node import fast_lane

BAD_INPUT = 2
NO_CLOCK = 'use_sim_time is set, but nothing has come on /clock yet'

USAGE = """usage: {program} [--ros-args -p <parameter>:=<value> --params-file <file> ...]

{purpose}

Topics and parameters are in the README of ros_lagdyn; while the node runs, `ros2 param describe`
explains its parameters.
"""


def lacks_clock(node: Node) -> bool:
    """Say whether a node waits for a simulated time that has not begun."""
    clock = node.get_clock()
    return bool(clock.ros_time_is_active) and clock.now().nanoseconds == 0


def spare_long_lived() -> None:
    """Let the garbage collector pass over all that lives now: its pauses cost joint states.

    To be called when a model is in place: what an older one left behind is freed.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _init(arguments: list[str]) -> str:
    """Begin with ROS; return what to warn of.

    A folder for the log that cannot be made, as on a full disk, is no reason to let an arm fall:
    the context is there, and what is logged still goes to the console.
    """
    # rclpy's own handlers would shut the context down before the node can say goodbye.
    try:
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except _rclpy.RCLError as error:
        if not rclpy.ok():
            raise
        return f'no log file, and nothing on /rosout: {error}'
    return ''


def run(program: str, purpose: str, make_node: Callable[[], Any],
        arguments: list[str] | None) -> int:
    """Make a node and serve it until SIGINT, SIGTERM or SIGHUP, which a closed terminal sends.

    The node has what fast_lane.spin() needs, and an attribute `is_ending` for a function that says
    whether a signal has come. Where it has `close()`, that is called while it can still publish.

    Returns:
        The exit code: 0, or 2 where an argument or a parameter is refused.
    """
    given = sys.argv if arguments is None else [program, *arguments]
    signalled: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # started with nohup: a terminal that closes ends nothing
        signal.signal(number, lambda number, frame: signalled.append(number))
    node = None
    try:
        own = remove_ros_args(given)[1:]
        if {'-h', '--help'} & set(own):
            print(USAGE.format(program=program, purpose=purpose), end='')
            return 0
        if own:
            raise InvalidArgumentError(f'unknown argument "{own[0]}", see --help')
        no_log = _init(given)
        node = make_node()
        if no_log:
            node.get_logger().warning(no_log)
    except Exception as error:
        if not isinstance(error, LagdynError) and 'ROSArgs' not in type(error).__name__ \
                and 'arguments' not in str(error):
            raise  # rclpy has several errors for what stands after --ros-args
        print(f'{program}: ' + ' '.join(str(error).split()), file=sys.stderr)
        rclpy.try_shutdown()
        return BAD_INPUT
    node.is_ending = lambda: bool(signalled)
    try:
        fast_lane.spin(node, until=node.is_ending)
    finally:  # an exception in a callback ends the process, but not before it has let go
        try:
            if hasattr(node, 'close'):
                node.close()
        finally:
            node.destroy_node()
            rclpy.try_shutdown()
    return 0
