# SPDX-License-Identifier: Apache-2.0
"""Hostile messages, each made from a few bytes: the same bytes always make the same message.

Most of them are nearly right, so that they come far: a valid message, of which one to three things
are spoilt. The bytes come from a seeded generator or from a coverage-guided fuzzer.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any, TypeVar

from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    GetParameterTypes,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS

STEP = 64  # bytes that one message is made from; where they do not last, a generator goes on
SECOND = 1_000_000_000  # [ns]
T = TypeVar('T')

NUMBERS = (
    nan, inf, -inf, 0.0, -0.0, 5e-324, -2.5e-310, 1e-300, 1e-9, 1e9, 1.0000000000000002e9, -1e9,
    1e10, -1e12, 1e100, 1.4e154, -1e200, 1e300, -1e308, 1.7976931348623157e308, 3.4e38, 2.0**53)
NAMES = (
    '', ' ', 'joint', 'joint1 ', 'Joint1', 'joint1\n', 'joint1\0', 'tool0', 'ünïcödé', '関節1',
    '\u202ejoint1', 'joint1\u0301', '😀', 'x' * 300, '%s%n{0}', '../../etc/passwd', 'file:///x',
    '$(reboot)', "'; drop table joints", '\x1b[2J', '\ufffd', 'nan', '0')
# What a JointState of Python can hold and no network can bring.
NO_NAMES = (None, 5, 1.5, b'joint1', ('joint1',), ['joint1'], {'joint1': 1}, '\ud800', object())
SECONDS = (0, 1, -1, 2**31 - 1, -(2**31), 1_800_000_000)
NANOSECONDS = (0, 1, SECOND - 1, SECOND, 2**31, 2**32 - 1)
TEXTS = (
    '', ' ', 'on', 'off', 'true', 'nan', 'inf', '1e999', '[1, 2', '[1.0, 2.0]', '[[1], 2]', '{}',
    'null', '-1', '0x10', '/etc/passwd', 'file:///etc/passwd', 'package://x/y.urdf', 'lagrangian',
    'pinocchio', 'closed_form', 'estimate', 'tool0', 'link1', 'x' * 5000, '\n', '\0', '😀',
    '<robot', '<robot name="a"/>', '<!DOCTYPE a SYSTEM "file:///etc/passwd"><robot/>')


class Source:
    """Choices made from bytes."""

    __slots__ = ('_at', '_data', '_rest')

    def __init__(self, data: bytes) -> None:
        """Take the bytes; the choices that come first are those of the first bytes."""
        self._data = data
        self._at = 0
        self._rest: random.Random | None = None

    def byte(self) -> int:
        """Return the next byte."""
        at = self._at
        if at < len(self._data):
            self._at = at + 1
            return self._data[at]
        if self._rest is None:
            self._rest = random.Random(self._data)
        return self._rest.getrandbits(8)

    def below(self, count: int) -> int:
        """Return a number from 0 to count - 1."""
        if count <= 256:
            return self.byte() * count >> 8
        return ((self.byte() << 16 | self.byte() << 8 | self.byte()) * count) >> 24

    def one_in(self, count: int) -> bool:
        """Say yes once in `count` times."""
        return self.below(count) == 0

    def pick(self, items: Sequence[T]) -> T:
        """Return one of some."""
        return items[self.below(len(items))]

    def number(self, size: float = 3.0) -> float:
        """Return a number: half of them are ordinary ones of up to `size`."""
        byte = self.byte()
        return NUMBERS[byte % len(NUMBERS)] if byte >= 128 else size * (byte - 64) / 64

    def numbers(self, count: int) -> array[float]:
        """Return so many numbers, all ordinary but for at most two."""
        result = array('d', [3.0 * (self.byte() - 128) / 128 for _ in range(min(count, 8))])
        result *= -(-count // max(len(result), 1))
        del result[count:]
        for _ in range(self.below(3)):
            if result:
                result[self.below(len(result))] = self.number()
        return result


class Hostile:
    """Makes hostile messages to the node of one arm."""

    def __init__(self, joints: Sequence[str], links: Sequence[str], *, wire: bool) -> None:
        """Take the names that are right.

        Args:
            joints: names of the arm's independent joints.
            links: names of its links.
            wire: only what can be sent over a network.
        """
        self.joints = list(joints)
        self.links = list(links)
        self._names = NAMES if wire else NAMES + NO_NAMES
        self._specs = NODE_PARAMETERS

    # -- what is common to messages ------------------------------------------------------------

    def stamp(self, source: Source, stamp: Any, now: int) -> None:
        """Write a time stamp near `now` [ns], or one of all kinds."""
        kind = source.below(12)
        if kind < 8:
            now += (0, 0, 1_000_000, 1, -1_000_000, -SECOND // 2, -2 * SECOND, SECOND)[kind]
            stamp.sec, stamp.nanosec = divmod(now, SECOND)
        elif kind < 10:
            stamp.sec, stamp.nanosec = source.pick(SECONDS), source.pick(NANOSECONDS)
        # else it is not set

    def names(self, source: Source) -> list[Any]:
        """Return names of joints: those of the arm, more or less."""
        names: list[Any] = list(self.joints)
        for _ in range(source.below(4)):
            kind = source.below(8)
            at = source.below(len(names) + 1)
            if kind == 0:
                names.insert(at, source.pick(self._names))
            elif kind == 1 and names:
                names[at - 1] = source.pick(self._names)
            elif kind == 2 and names:
                del names[at - 1]
            elif kind == 3:
                names.insert(at, source.pick(self.joints))
            elif kind == 4:
                names.reverse()
            elif kind == 5:
                names = names[at:] + names[:at]
            elif kind == 6 and source.one_in(4):
                names = [source.pick(self._names) for _ in range(source.below(20))]
            elif kind == 7 and source.one_in(64):
                names += [f'joint{number}' for number in range(10, 10 + source.below(5000))]
        return names

    def count(self, source: Source, right: int) -> int:
        """Return how many numbers go with so many names: mostly the right number of them."""
        kind = source.below(16)
        if kind < 10:
            return right
        if kind == 15 and source.one_in(32):
            return source.below(5000)
        return (0, right + 1, right + 2, max(right - 1, 0), 2 * right, 1)[kind - 10]

    # -- messages --------------------------------------------------------------------------------

    def joint_state(self, source: Source, now: int) -> JointState:
        """Return a joint state of about `now` [ns]."""
        message = JointState()
        self.stamp(source, message.header.stamp, now)
        names = self.names(source)
        message.name = names
        message.position = source.numbers(self.count(source, len(names)))
        if not source.one_in(4):
            message.velocity = source.numbers(self.count(source, len(names)))
        if source.one_in(3):
            message.effort = source.numbers(self.count(source, len(names)))
        return message

    def reference(self, source: Source, now: int) -> JointTrajectory:
        """Return a desired motion."""
        message = JointTrajectory()
        self.stamp(source, message.header.stamp, now)
        message.joint_names = self.names(source)
        count = len(message.joint_names)
        for _ in range(source.pick((1, 1, 1, 1, 0, 2, 3))):
            point = JointTrajectoryPoint()
            for what in ('positions', 'velocities', 'accelerations'):
                if what == 'accelerations' or source.one_in(2):
                    setattr(point, what, source.numbers(self.count(source, count)))
            message.points.append(point)
        return message

    def wrench(self, source: Source, now: int) -> WrenchStamped:
        """Return a push."""
        message = WrenchStamped()
        self.stamp(source, message.header.stamp, now)
        message.header.frame_id = source.pick(
            self.links if source.below(4) else [name for name in NAMES])
        for vector in (message.wrench.force, message.wrench.torque):
            vector.x = source.number(50.0)
            vector.y = source.number(50.0)
            vector.z = source.number(50.0)
        return message

    # -- requests --------------------------------------------------------------------------------

    def _parameter(self, source: Source) -> Parameter:
        """Return a parameter of the node, or none, with a value that is seldom right."""
        spec = source.pick(self._specs)
        name = spec.name if source.below(8) else source.pick((
            *NAMES, 'use_sim_time', 'gravity.', 'command', 'start_type_description_service',
            'qos_overrides./parameter_events.publisher.depth'))
        value = ParameterValue()
        value.type = spec.type.value if source.below(3) else source.pick(
            (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99, 200, 255))
        value.bool_value = bool(source.below(2))
        value.integer_value = source.pick((0, 1, -1, 5, 2**31, 2**62, 2**63 - 1, -(2**63)))
        value.double_value = source.number()
        value.string_value = source.pick(
            spec.choices if spec.choices and source.below(3) else TEXTS)
        count = source.pick((0, 1, 2, 3, 4, 9, 1000))
        value.double_array_value = source.numbers(count)
        value.string_array_value = [source.pick(
            (*self.joints, *NAMES)) for _ in range(min(count, 9))]
        value.byte_array_value = [b'\xff'] * count
        value.bool_array_value = [True] * count
        value.integer_array_value = array('q', [source.pick((0, 1, -1, 2**63 - 1))]) * count
        return Parameter(name=name, value=value)

    def request(self, source: Source) -> tuple[str, Any]:
        """Return the last part of the name of a service of parameters, and a request to it."""
        kind = source.below(16)
        if kind < 9:
            return 'set_parameters', SetParameters.Request(
                parameters=[self._parameter(source) for _ in range(source.pick((1, 1, 1, 0, 3)))])
        if kind < 12:
            return 'set_parameters_atomically', SetParametersAtomically.Request(
                parameters=[self._parameter(source) for _ in range(source.pick((1, 2, 3, 0)))])
        names = [source.pick(self._specs).name if source.below(3) else source.pick(NAMES)
                 for _ in range(source.pick((1, 2, 0, 50)))]
        if kind == 12:
            return 'get_parameters', GetParameters.Request(names=names)
        if kind == 13:
            return 'describe_parameters', DescribeParameters.Request(names=names)
        if kind == 14:
            return 'get_parameter_types', GetParameterTypes.Request(names=names)
        return 'list_parameters', ListParameters.Request(
            prefixes=names, depth=source.pick((0, 1, 2, 2**63, 2**64 - 1)))

    def transition(self, source: Source) -> ChangeState.Request:
        """Return a request for a lifecycle transition; seldom for one to the end."""
        request = ChangeState.Request()
        request.transition.id = source.pick((
            1, 2, 3, 4, 1, 3, 0, 5, 8, 9, 10, 11, 20, 30, 97, 98, 99, 128, 200, 255))
        if source.one_in(4):
            request.transition.label = source.pick((
                'configure', 'activate', 'deactivate', 'cleanup', 'create', 'transition_success',
                'transition_error', *NAMES))
        return request


def is_hopeless(message: JointState, joints: Sequence[str]) -> bool:
    """Say whether a joint state must be refused, whatever came before: an independent judgement.

    docs/joint_states.md says what is made of the others.
    """
    ours = [at for at, name in enumerate(message.name)
            if isinstance(name, str) and name in joints]
    counts = len(message.position), len(message.velocity), len(message.effort)
    size = len(message.name)
    if not ours or counts[0] != size or any(count not in (0, size) for count in counts[1:]):
        return True
    if len({message.name[at] for at in ours}) < len(ours):
        return True
    return any(not -1e9 <= message.position[at] <= 1e9 for at in ours)


def reference_in(message: JointTrajectory, joints: Sequence[str]
                 ) -> tuple[list[float] | None, list[float] | None, list[float]] | None:
    """Return q, v, a of a desired motion as the README says, or None where it must be refused."""
    names = list(message.joint_names)
    if not message.points or any(names.count(joint) != 1 for joint in joints):
        return None
    point = message.points[0]
    found: list[list[float] | None] = []
    for numbers in (point.positions, point.velocities, point.accelerations):
        if len(numbers) not in (0, len(names)):
            return None
        ours = [numbers[names.index(joint)] for joint in joints] if len(numbers) else None
        if ours is not None and not all(-1e9 <= number <= 1e9 for number in ours):
            return None
        found.append(ours)
    if found[2] is None:
        return None
    return found[0], found[1], found[2]


def wrench_in(message: WrenchStamped, links: Sequence[str], prefix: str = ''
              ) -> tuple[str, list[float]] | None:
    """Return link, force and torque of a push, or None where it must be refused."""
    frame = message.header.frame_id
    link = frame if frame in links else frame.removeprefix(prefix)
    force, torque = message.wrench.force, message.wrench.torque
    numbers = [force.x, force.y, force.z, torque.x, torque.y, torque.z]
    if link not in links or not all(-1e9 <= number <= 1e9 for number in numbers):
        return None
    return link, numbers


def smallest(steps: list[bytes], fails: Callable[[list[bytes]], bool], tries: int = 200
             ) -> list[bytes]:
    """Return a part of some steps that fails, too: as few of them as are found in some tries."""
    size = len(steps)
    while size and tries > 0:
        size = (size + 1) // 2
        at = 0
        while at < len(steps) and tries > 0 and len(steps) > 1:
            fewer = steps[:at] + steps[at + size:]
            tries -= 1
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        if size == 1:
            break
    return steps
