# SPDX-License-Identifier: Apache-2.0
"""From joint states to answers: what runs for every message of a configured node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.clock import Clock
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time as RosTime
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from ros_lagdyn.errors import LagdynError
from ros_lagdyn.filtered_derivative import SECOND
from ros_lagdyn.generalized_forces import Wrench
from ros_lagdyn.joint_state_table import JointStateTable
from ros_lagdyn.live_model import Answer, LiveModel, State
from ros_lagdyn.recent_wrenches import RecentWrenches
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.diagnostics import Traffic
from ros_lagdyn.ros_node.fast_lane import Info
from ros_lagdyn.ros_node.outputs import Outputs
from ros_lagdyn.ros_node.parameters import Values
from ros_lagdyn.ros_node.reference import Reference
from ros_lagdyn.ros_node.wrench_message import wrench_of

QUEUE = qos_profile_sensor_data.depth  # joint states that the middleware keeps
MOST_AT_ONCE = 4 * QUEUE  # taken in one go, so that others have their turn in a flood
# Falling behind shows in takes, in a row, that find the queue full: some were lost already. What
# a pause of the machine has left is worked off in fewer, even where answers take nearly all time.
WORRIED = 5
# It is over after so many in a row that have to wait for the next one: where answers take longer
# than they may, one is always there already.
RELIEVED = 5
LONGEST_WAIT = 10.0  # [s] in the queue of the middleware; more is a clock that was set

# The clock of receipt, age and latency: it never goes back. [s]
steady = time.perf_counter


def _waited(info: Info) -> float:
    """Return how long ago the middleware received a message [s]; 0 where it does not say."""
    received = info.get('received_timestamp')
    if not received:
        return 0.0
    waited = 1e-9 * (time.time_ns() - received)
    return waited if 0.0 <= waited <= LONGEST_WAIT else 0.0


class _Asked(NamedTuple):
    """What a command is made from."""

    answer: Answer
    wrenches: tuple[Wrench, ...]


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
        self._is_behind = False
        self._takes = 0  # in a row that speak for a change of that
        self._idle_since = 0.0  # steady time [s], when all that waited had been answered
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

    def forget_inputs(self) -> None:
        """Begin anew: what was received before counts no longer."""
        self.table.reset()
        self._reference.clear()
        self._wrenches.clear()

    def take(self, messages: Iterable[tuple[JointState, Info]]) -> None:
        """Enter joint states, oldest first, and answer each; only the newest when falling behind.

        A pause of the machine leaves a full queue, which is answered in a moment. Where answers
        take longer than joint states take to come, old ones help nobody. A torque is commanded
        for the newest alone.
        """
        begin = steady()
        waiting = list(islice(messages, MOST_AT_ONCE))
        if waiting:
            self._look_at_backlog(len(waiting), begin - _waited(waiting[0][1]))
        newest: tuple[JointState, float] | None = None  # not answered yet
        held: _Asked | None = None  # not commanded yet
        for number, (message, info) in enumerate(waiting, 1):
            received = steady() - _waited(info)
            if not self._put(message, info, received):
                continue
            if self._is_behind:
                self.traffic.skipped += newest is not None
                newest = message, received
            elif number < len(waiting):
                held = self._answer(message, received, commanded=False)
            else:
                self._answer(message, received)
                held = None
        if newest is not None:
            self._answer(*newest)
        elif held is not None:  # what came last was refused
            self._command(held)
        self._idle_since = steady()

    def _look_at_backlog(self, count: int, first_received: float) -> None:
        """Learn from what waits whether answers take longer than they may."""
        speaks_for_change = (
            first_received > self._idle_since if self._is_behind else count >= QUEUE)
        self._takes = self._takes + 1 if speaks_for_change else 0
        if self._takes >= (RELIEVED if self._is_behind else WORRIED):
            self._is_behind, self._takes = not self._is_behind, 0

    def _put(self, message: JointState, info: Info, received: float) -> bool:
        """Enter a joint state into the table; say whether it can be answered."""
        stamp = message.header.stamp
        stamp_ns = stamp.sec * SECOND + stamp.nanosec
        if stamp_ns == 0:  # not set: when it was received is the best guess
            at = self._clock.now().nanoseconds - round(SECOND * (steady() - received))
            message.header.stamp = RosTime(nanoseconds=max(at, 0)).to_msg()
            # When it was sent is better for derivatives: nothing here can hold that up.
            stamp_ns = at if self._clock.ros_time_is_active else (
                info.get('source_timestamp') or at)
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
            named = ', '.join(self.table.unknown_names) or 'no joint'
            return f', it names {named}; the arm has {", ".join(self.table.joints)}'
        if remark == 'incomplete':
            return f', missing or too old: {", ".join(self.table.missing())}'
        return ''

    def _answer(self, message: JointState, received: float, *, commanded: bool = True) -> _Asked:
        """Compute and publish everything for the state in the table; the command first, if any."""
        begin = steady()
        model, outputs, table, values = self.model, self.outputs, self.table, self._values
        q, v = table.q, table.v
        source = values['acceleration.source']
        wished = self._wished(source, q, v, received)
        wrenches = (self._wrenches.current(begin)
                    if values['external_wrench.enabled'] else ())
        answer = model.answer(q, v, wished, wrenches)
        asked = _Asked(answer, wrenches)
        if commanded:
            self._command(asked)
        outputs.publish(message.header.stamp, wished, answer)
        if table.efforts is not None:
            # Where the arm is, not where a reference wishes it to be.
            outputs.publish_residual(
                table.efforts, answer.terms.gravity, answer.torque if source != 'reference'
                else model.torque(State(q, v, wished.a), wrenches))
        every = values['cross_check.every']
        if every and self.traffic.answered % every == 0:
            outputs.publish_cross_check(model.check(q, v, wished, answer))
        if outputs.has_markers and begin >= self._next_markers:
            self._next_markers = begin + 1.0 / values['markers.rate']
            outputs.publish_markers(q, answer.terms.gravity)
        self.traffic.answered += 1
        self.traffic.latencies.append(steady() - received)
        return asked

    def _command(self, asked: _Asked) -> None:
        """Command a torque for the state in the table, where that is wanted."""
        outputs, table = self.outputs, self.table
        if not outputs.command.may_command:
            return
        torque = gravity = asked.answer.terms.gravity
        if outputs.command.mode == 'inverse_dynamics':
            # The measured acceleration, fed back, would cancel the arm's inertia: a light
            # push and it runs away.
            torque = (asked.answer.torque if self._values['acceleration.source'] != 'estimate'
                      else self.model.torque(
                          State(table.q, table.v, self._zeros), asked.wrenches))
        outputs.command.update(
            table, torque, gravity, disagrees=outputs.cross_check.is_error, now=steady())

    def _wished(self, source: str, q: Array, v: Array, now: float) -> State:
        """Return the state and acceleration for which the torque is asked."""
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
