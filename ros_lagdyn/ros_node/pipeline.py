# SPDX-License-Identifier: Apache-2.0
"""From joint states to answers: what runs for every message of a configured node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.clock import Clock
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from ros_lagdyn.errors import LagdynError
from ros_lagdyn.joint_state_table import JointStateTable
from ros_lagdyn.live_model import LiveModel, State
from ros_lagdyn.recent_wrenches import RecentWrenches
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.diagnostics import Traffic
from ros_lagdyn.ros_node.outputs import Outputs
from ros_lagdyn.ros_node.parameters import Values
from ros_lagdyn.ros_node.reference import Reference
from ros_lagdyn.ros_node.wrench_message import wrench_of

SECOND = 1_000_000_000  # [ns]
QUEUE = qos_profile_sensor_data.depth  # joint states that the middleware keeps
MOST_AT_ONCE = 4 * QUEUE  # taken in one go, so that others have their turn in a flood

# The clock of receipt, age and latency: it never goes back. [s]
steady = time.perf_counter


class Pipeline:
    """Maps joint states by name, asks the model, publishes. Never raises for a message."""

    def __init__(self, model: LiveModel, outputs: Outputs, values: Values, *, clock: Clock,
                 warn: Callable[[str, str], None]) -> None:
        """Begin with no joint state.

        Args:
            model: the arm.
            outputs: prepared for this arm.
            values: of the node's parameters.
            clock: of the node, for joint states without a stamp.
            warn: takes the kind of a warning and its text.
        """
        self.traffic = Traffic()
        self._clock = clock
        self._warn = warn
        self._answers = 0
        self._queue_was_full = False
        self._next_markers = 0.0  # steady time [s]
        self._begin_with(model, values)
        self.use(model, outputs, values)

    def _begin_with(self, model: LiveModel, values: Values) -> None:
        self.table = JointStateTable(
            model.joints, velocity_cutoff=values['velocity.cutoff'],
            acceleration_cutoff=values['acceleration.cutoff'],
            max_age=values['joint_states.max_age'])
        self._reference = Reference(model.joints)
        self._wrenches = RecentWrenches(values['external_wrench.timeout'])
        self._zeros = np.zeros(len(model.joints))

    def use(self, model: LiveModel, outputs: Outputs, values: Values) -> None:
        """Let a model and values count from the next joint state on."""
        if model.joints != self.table.joints:
            counts = self.table.counts
            self._begin_with(model, values)
            self.table.counts.update(counts)
        self.table.velocity_cutoff = values['velocity.cutoff']
        self.table.acceleration_cutoff = values['acceleration.cutoff']
        self.table.max_age = values['joint_states.max_age']
        self._wrenches.timeout = values['external_wrench.timeout']
        self.model, self.outputs, self._values = model, outputs, values

    def take(self, messages: Iterable[JointState]) -> None:
        """Enter joint states, oldest first, and answer each; only the newest when falling behind.

        A pause of the machine leaves a full queue, which is answered in a moment. When it is full
        again right afterwards, joint states come faster than answers: old ones help nobody.
        """
        waiting = list(islice(messages, MOST_AT_ONCE))
        is_full = len(waiting) >= QUEUE
        is_behind = is_full and self._queue_was_full
        self._queue_was_full = is_full
        newest = None
        for message in waiting:
            received = steady()
            if not self._put(message, received):
                continue
            if is_behind:
                newest = message, received
            else:
                self._answer(message, received)
        if newest is not None:
            self._answer(*newest)

    def _put(self, message: JointState, received: float) -> bool:
        """Enter a joint state into the table; say whether it can be answered."""
        stamp = message.header.stamp
        stamp_ns = stamp.sec * SECOND + stamp.nanosec
        if stamp_ns == 0:  # not set: the time of receipt is the best guess
            now = self._clock.now()
            stamp_ns = now.nanoseconds
            message.header.stamp = now.to_msg()
        verdict = self.table.put(
            message.name, message.position, message.velocity, message.effort,
            stamp_ns=stamp_ns, received=received)
        self.traffic.received += 1
        if verdict.usable:
            self.traffic.newest_stamp = stamp_ns
        if remark := verdict.reason or verdict.note:
            self._warn(remark, f'joint state: {remark}{self._details(remark, message)}')
        return verdict.usable

    def _details(self, remark: str, message: JointState) -> str:
        if remark == 'no_known_joint':
            named = ', '.join(message.name[:10]) or 'no joint'
            return f', it names {named}; the arm has {", ".join(self.table.joints)}'
        if remark == 'incomplete':
            return f', missing or too old: {", ".join(self.table.missing())}'
        return ''

    def _answer(self, message: JointState, received: float) -> None:
        """Compute and publish everything for the state in the table."""
        model, outputs, table, values = self.model, self.outputs, self.table, self._values
        q, v = table.q, table.v
        wished = self._wished(q, v, received)
        wrenches = (self._wrenches.current(received)
                    if values['external_wrench.enabled'] else ())
        answer = model.answer(q, v, wished, wrenches)
        outputs.publish(message.header.stamp, wished, answer, table.efforts)
        every = values['cross_check.every']
        if every and self._answers % every == 0:
            outputs.publish_cross_check(model.check(q, v, wished, answer))
        if outputs.has_markers and received >= self._next_markers:
            self._next_markers = received + 1.0 / values['markers.rate']
            outputs.publish_markers(q, answer.terms.gravity)
        self._answers += 1
        self.traffic.latencies.append(steady() - received)

    def _wished(self, q: Array, v: Array, now: float) -> State:
        """Return the state and acceleration for which the torque is asked."""
        source = self._values['acceleration.source']
        if source == 'estimate':
            return State(q, v, self.table.a)
        if source == 'reference':
            return self._reference.state(q, v, now, self._values['reference.timeout'])
        return State(q, v, self._zeros)

    def take_reference(self, message: JointTrajectory) -> None:
        """Take a desired motion, or refuse it."""
        self._or_refuse('reference', lambda: self._reference.put(message, steady()))

    def take_wrench(self, message: WrenchStamped) -> None:
        """Take a push, or refuse it."""
        self._or_refuse('external_wrench', lambda: self._wrenches.put(
            wrench_of(message, self.model.arm, self._values['frame_prefix']), steady()))

    def _or_refuse(self, topic: str, take: Callable[[], Any]) -> None:
        try:
            take()
        except LagdynError as error:
            self.traffic.refused[topic] += 1
            self._warn(topic, f'~/{topic} refused: {error}')
