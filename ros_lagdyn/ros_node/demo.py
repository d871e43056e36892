# SPDX-License-Identifier: Apache-2.0
"""The demo: node and simulator as processes of their own, and a live table of what they say.

Brakes hold the simulated arm in a pose. The node answers its joint states with gravity torques,
which grow from zero; when they stand still the brakes open: from then on the computed torques
alone hold the arm.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ros_lagdyn.arm import Arm
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.demo_table import Screen, Seen, judge, plain_line, summary, table
from ros_lagdyn.shipped_arms import SHIPPED_ARMS, STEMS, shipped_urdf
from ros_lagdyn.urdf_model import load_arm

GOOD, FAILED, BAD_INPUT = 0, 1, 2  # exit codes; a signal adds its number to 128
START_UP = 30.0  # [s] until the brakes must have opened, far above what a slow machine takes
END = 5.0  # [s] for a child to end after SIGINT
BRAKES_OPEN_BY = 2.0  # [s] after the first command, at the latest
LOOK = 0.02  # [s] between two looks at the topics
REDRAW = 0.1  # [s]
HIGHEST_DOMAIN = 232  # of DDS
WHERE = 0.3  # pose: this part of the way from the lower to the upper stop of each joint



def demo_pose(arm: Arm) -> Array:
    """Return a pose (n,) between the stops, away from the middle, where many arms balance."""
    lower, upper = joint_stops(arm)
    # A joint without stops has a turn of room.
    lower = np.where(np.isfinite(lower), lower, -math.pi)
    upper = np.where(np.isfinite(upper), upper, math.pi)
    return lower + WHERE * (upper - lower)


# -- the processes ---------------------------------------------------------------------------


class Child:
    """A process of this package that ends when the demo ends, in whatever way."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start `python -m ros_lagdyn.ros_node.<module> <arguments>`."""
        self.name = module
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  a pipe that nobody reads fills up
        self._process = subprocess.Popen(
            [sys.executable, '-m', f'ros_lagdyn.ros_node.{module}', *arguments],
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT,
            # Out of reach of the terminal's Ctrl-C: the demo decides when it ends.
            start_new_session=True, preexec_fn=_dies_with(os.getpid()))

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Ask it to end."""
        self._process.send_signal(signal.SIGINT)

    def wait(self, deadline: float) -> bool:
        """Wait for its end until a time [s]; then kill it, and say so by False."""
        try:
            self._process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def last_output(self, lines: int = 12) -> list[str]:
        """Return the end of what it said."""
        self._output.seek(0)
        text = self._output.read().decode(errors='replace')
        return text.splitlines()[-lines:]


def _dies_with(parent: int) -> Callable[[], None] | None:
    """Return what a child does first, so that it does not outlive a parent that was killed."""
    if sys.platform != 'linux':
        return None
    prctl = ctypes.CDLL(None).prctl
    set_parent_death_signal = 1

    def prepare() -> None:
        prctl(set_parent_death_signal, int(signal.SIGKILL))
        if os.getppid() != parent:  # too late
            os._exit(1)

    return prepare


def start_children(pose: Array, namespace: str) -> list[Child]:
    """Start the node, which sends gravity torques, and the simulator, in a pose (n,)."""
    ours = ('--ros-args', '-r', f'__ns:=/{namespace}')
    return [
        Child('dynamics_node', *ours, '-p', 'command.mode:=gravity',
              '-p', 'command.enable_at_start:=true',
              # A busy machine is silent for longer than a robot may be; no motor gets hot here.
              '-p', 'command.timeout:=0.5', '-r', '~/command:=effort_command'),
        # Without friction, which would hold the arm against a torque that is a little wrong.
        Child('arm_simulator', *ours, '-p', 'friction:=false',
              '-p', f'initial_position:={[float(value) for value in pose]}'),
    ]


def stop_children(children: Sequence[Child]) -> None:
    """End all of them; at the latest after END seconds none is left."""
    for child in children:
        if child.exit_code is None:
            child.interrupt()
    deadline = time.monotonic() + END
    for child in children:
        if not child.wait(deadline):
            with suppress(OSError):
                print(f'demo: {child.name} did not end within {END:g} s and was killed',
                      file=sys.stderr)


class Watcher:
    """The demo's own node: publishes the description and looks at what the others say.

    Nothing spins: messages are taken when it is time to look, the newest one of what is only
    shown, each one of what is judged.
    """

    def __init__(self, seen: Seen, description: str, namespace: str) -> None:
        """Join the graph, as robot_state_publisher does with its description."""
        import rclpy
        from diagnostic_msgs.msg import DiagnosticArray
        from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
        from rclpy.signals import SignalHandlerOptions
        from sensor_msgs.msg import JointState
        from std_msgs.msg import Float64MultiArray, String

        from ros_lagdyn.ros_node.fast_lane import waiting_messages

        self._rclpy = rclpy
        self._messages = waiting_messages
        self._seen = seen
        self._commanded: Any = None
        self._commanded_since = math.inf
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._node = node = rclpy.create_node(
            'lagdyn_demo', namespace=namespace, enable_rosout=False,
            start_parameter_services=False)
        self._traffic = f'{namespace}/lagdyn: joint states'
        self._description = node.create_publisher(String, 'robot_description', QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._description.publish(String(data=description))
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        every = QoSProfile(depth=500)  # a second's

        # In this order: whether the brakes are open shows in the joint states after a command.
        self._topics = [
            (node.create_subscription(kind, topic, take, qos), take)
            for kind, topic, take, qos in (
                (Float64MultiArray, 'effort_command', self._on_command, newest),
                (JointState, 'joint_states', self._on_state, every),
                (JointState, 'lagdyn/gravity_compensation', self._on_gravity, newest),
                (JointState, 'lagdyn/inverse_dynamics', self._on_torque, newest),
                (Float64MultiArray, 'lagdyn/mass_matrix', self._on_mass_matrix, newest),
                (DiagnosticArray, 'lagdyn/cross_check', self._on_check, every),
                (DiagnosticArray, '/diagnostics', self._on_diagnostics, QoSProfile(depth=10)),
            )]

    def look(self) -> None:
        """Take what has come."""
        for subscription, take in self._topics:
            for message in self._messages(subscription):
                take(message)

    def close(self) -> None:
        """Leave the graph."""
        self._node.destroy_node()
        self._rclpy.try_shutdown()

    def _on_command(self, message: Any) -> None:
        self._commanded = message.data
        self._commanded_since = min(self._commanded_since, time.monotonic())

    def _on_state(self, message: Any) -> None:
        seen = self._seen
        if tuple(message.name) != seen.joints:
            return
        seen.see_state(np.array(message.position), np.array(message.velocity))
        # While brakes hold the arm, its motors are off; a torque of zero shows nothing.
        now = time.monotonic()
        if seen.opened is None and (any(message.effort) or (
                now > self._commanded_since + BRAKES_OPEN_BY and not any(self._commanded))):
            seen.opened = now

    def _on_gravity(self, message: Any) -> None:
        self._seen.gravity = np.array(message.effort)

    def _on_torque(self, message: Any) -> None:
        self._seen.torque = np.array(message.effort)

    def _on_mass_matrix(self, message: Any) -> None:
        n = len(self._seen.joints)
        self._seen.mass_matrix = np.array(message.data).reshape(n, n)

    def _on_check(self, message: Any) -> None:
        for status in message.status:
            self._seen.see_check(_values(status), int.from_bytes(status.level, 'little'),
                                 time.monotonic())

    def _on_diagnostics(self, message: Any) -> None:
        for status in message.status:
            if status.name == self._traffic:
                self._seen.see_traffic(_values(status))


def _values(status: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in status.values}


# -- the command line ------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parser().parse_args(arguments)
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    try:
        if sys.stdout is None:
            raise LagdynError('standard output is closed: there is nothing to show the demo on')
        _require_ros()
        screen = Screen(sys.stdout, os.environ)
        try:
            return _run(options.arm, options.seconds, screen, signals)
        finally:
            screen.restore()
    except LagdynError as error:
        print(f'demo: {error}', file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        # Whoever read the output went away, as in `demo | head`, or the terminal was closed.
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError):
                print(f'demo: {error}', file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signals[0] if signals else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='demo', description='Hold a simulated arm against gravity by computed torques.',
        epilog=f'Exit code: {GOOD} the engines agree and the arm held its pose, {FAILED} one of '
               f'them did not, {BAD_INPUT} an argument is bad. Without ROS_DOMAIN_ID the demo '
               'takes a domain of its own.')
    parser.add_argument('--arm', type=arm, default='two_link', metavar='STEM',
                        help='one of ' + ', '.join(STEMS) + ' (default %(default)s)')
    parser.add_argument('--seconds', type=seconds, default=10.0, metavar='S',
                        help='how long to hold the arm (default %(default)g)')
    return parser


# Named as argparse shall name them: "invalid seconds value: 'abc'".


def arm(text: str) -> str:
    """Read the stem of a shipped arm."""
    if text not in STEMS:
        raise argparse.ArgumentTypeError(
            f'unknown arm "{text}", known are: {", ".join(STEMS)}')
    return text


def seconds(text: str) -> float:
    """Read a duration."""
    value = float(text)
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f'must be finite and > 0, got {text}')
    return value


def _require_ros() -> None:
    try:
        for module in ('rclpy', 'diagnostic_msgs.msg', 'sensor_msgs.msg', 'std_msgs.msg'):
            importlib.import_module(module)
    except ImportError as error:
        raise LagdynError(
            f'ROS 2 is missing ({error}): ./scripts/demo installs it, or source a ROS 2 setup file'
        ) from error
    if not os.environ.get('ROS_DOMAIN_ID'):
        # Two demos at once shall not mix. Up to 101 the ports of a domain are free on Linux.
        os.environ['ROS_DOMAIN_ID'] = str(1 + os.getpid() % 101)
        return
    domain = os.environ['ROS_DOMAIN_ID']
    if not domain.isdecimal() or int(domain) > HIGHEST_DOMAIN:
        raise LagdynError(f'ROS_DOMAIN_ID must be a whole number from 0 to {HIGHEST_DOMAIN}, '
                          f'got "{domain}"')


def _run(stem: str, duration: float, screen: Screen, signals: Sequence[int]) -> int:
    path = shipped_urdf(stem)
    model = load_arm(path)
    seen = Seen(
        stem=stem, title=next(arm.title for arm in SHIPPED_ARMS if arm.stem == stem),
        joints=model.joints, turns=tuple(joint.turns for joint in model.independent_joints),
        pose=demo_pose(model))
    children: list[Child] = []
    watcher = None
    try:
        # Whatever else runs in the domain is left in peace.
        namespace = f'demo_{os.getpid()}'
        children += start_children(seen.pose, namespace)
        watcher = Watcher(seen, path.read_text(encoding='utf-8'), namespace)
        elapsed = _watch(watcher, seen, duration, screen, signals, children)
        dead = [(child, child.exit_code) for child in children if child.exit_code is not None]
    finally:
        stop_children(children)
        if watcher is not None:
            watcher.close()
    if signals:
        screen.print(f'demo: stopped by {signal.Signals(signals[0]).name}')
        return 128 + signals[0]
    faults = [f'{child.name} ended by itself with exit code {code}' for child, code in dead]
    faults += judge(seen)
    if faults and (dead or seen.opened is None):
        for child in children:
            screen.print(f'the last that {child.name} said:',
                         *('  ' + line for line in child.last_output()))
    screen.print(*summary(seen, elapsed, faults, screen.style))
    return FAILED if faults else GOOD


def _watch(watcher: Watcher, seen: Seen, duration: float, screen: Screen,
           signals: Sequence[int], children: Sequence[Child]) -> float:
    """Look and show until the time is over or something ends it; return the elapsed time [s]."""
    begin = time.monotonic()
    if not screen.live:
        screen.print(f'{seen.stem}, {seen.title}: held by computed torques for {duration:g} s; '
                     f'joints {", ".join(seen.joints)}')
    drawn = -math.inf
    line = (True, 0)  # whether the brakes hold, and the whole seconds: a line for each
    while True:
        watcher.look()
        now = time.monotonic()
        elapsed = now - (begin if seen.opened is None else seen.opened)
        over = (elapsed >= (START_UP if seen.opened is None else duration) or bool(signals)
                or any(child.exit_code is not None for child in children))
        if screen.live and (over or now - drawn >= REDRAW):
            screen.draw(table(seen, elapsed, duration, screen.style))
            drawn = now
        elif not screen.live and (this := (seen.opened is None, int(elapsed))) != line:
            screen.print(plain_line(seen, elapsed))
            line = this
        if over:
            seen.end(now)
            return elapsed
        time.sleep(LOOK)


if __name__ == '__main__':
    sys.exit(main())
