# SPDX-License-Identifier: Apache-2.0
"""The torques that go to an effort controller: which ones, in which order, and past the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

import numpy as np
from std_msgs.msg import Float64MultiArray

from ros_lagdyn.command_guard import (
    CommandGuard,
    GuardLimits,
    GuardSettings,
    Sample,
    State,
)
from ros_lagdyn.errors import InvalidArgumentError, UnknownNameError
from ros_lagdyn.joint_state_table import JointStateTable
from ros_lagdyn.live_model import LiveModel
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.messages import ArrayMessage
from ros_lagdyn.ros_node.parameters import OFF, Values

TICK = 0.01  # [s], between two looks at the time
LET_GO = 1.0  # [s], how long the last zeros are repeated to who does not answer
LET_GO_EVERY = 0.05  # [s]
HEARD_WITHIN = 3.0  # [s], after which a subscriber that acknowledges nothing holds up nobody
FULL_EFFORT_IN = 0.1  # [s], from zero: the slew rate where none is given


class CommandOutput:
    """Sends the torques of one model to a controller.

    Attributes:
        mode: which torques: off, gravity or inverse_dynamics.
        joints: names of the joints, or motors, in the order of the command.
        hardware_id: name of the robot.
        guard: what decides whether a torque leaves.
        effortless: those that may not have any torque, because the URDF limits it to 0.
        unguarded: what cannot be judged because a limit is missing, as sentences.
    """

    def __init__(self, model: LiveModel, values: Values,
                 publish: Callable[[Float64MultiArray], None],
                 is_heard: Callable[[float], bool | None] = lambda seconds: True) -> None:
        """Prepare the message; the guard is off.

        Args:
            model: the arm.
            values: of the node's parameters.
            publish: takes the command.
            is_heard: waits for so many seconds at most, and says whether every controller has
                the last command; None where there is no controller.

        Raises:
            LagdynError: a parameter of the command does not fit the arm.
        """
        self.mode: str = values['command.mode']
        self.joints = _commanded(model, values['command.joints'])
        self.hardware_id = model.arm.name
        self._model = model
        self._publish = publish
        self._is_heard = is_heard
        self._drives_motors = not set(self.joints) <= set(model.joints)
        known = model.actuators if self._drives_motors else model.joints
        self._order = np.array([known.index(joint) for joint in self.joints])
        self._message = ArrayMessage(joints=self.joints)
        limits = [joint.limit for joint in model.arm.independent_joints]
        self._joint_effort = np.array([limit.effort for limit in limits])
        given_effort = effort = _given(values, 'command.max_effort', self.joints)
        if effort is None:
            effort = (model.largest_actuator_torques(self._joint_effort) if self._drives_motors
                      else self._joint_effort)[self._order]
        slew = _given(values, 'command.max_slew', self.joints)
        self._settings = GuardSettings(
            policy=values['command.policy'], ramp_time=values['command.ramp_time'],
            fade_time=values['command.fade_time'], hold_time=values['command.hold_time'],
            timeout=values['command.timeout'],
            velocity_factor=values['command.velocity_factor'],
            patience=values['cross_check.patience'])
        self._limits = GuardLimits(
            max_effort=effort,
            max_slew=effort / FULL_EFFORT_IN if slew is None else slew,
            # Exporters of CAD programs write a velocity of 0 for "not known".
            max_velocity=np.array([limit.velocity or inf for limit in limits]),
            fresh_joints=range(len(model.joints)) if self._drives_motors else self._order.tolist(),
            together=self._drives_motors,
            # Some drivers count continuous joints from -pi to pi, over and over.
            turning_joints=[index for index, joint in enumerate(model.arm.independent_joints)
                            if joint.kind == 'continuous'])
        self.guard = CommandGuard(self._settings, self._limits)
        self.effortless = tuple(
            joint for joint, most in zip(self.joints, effort.tolist(), strict=True)
            if given_effort is None and not most)
        self.unguarded = tuple(_unguarded(self.joints, self._limits, model.joints))
        self._enabled_at_start: bool = values['command.enable_at_start']
        self._next_tick = 0.0  # steady time [s]
        self._silent_since = inf  # that a subscriber acknowledges nothing, steady [s]
        self._has_commanded = False  # whatever it was

    @property
    def arm_joints(self) -> tuple[str, ...]:
        """Names of the arm's joints, in its order."""
        return self._model.joints

    # -- the switch --------------------------------------------------------------------------

    @property
    def may_command(self) -> bool:
        """Say whether torques go out as soon as the guard lets them."""
        return self.mode != OFF and self.guard.is_enabled

    @property
    def is_waiting(self) -> bool:
        """Say whether torques would go out, had the ramp begun."""
        return self.mode != OFF and self.guard.state is State.WAITING

    def start(self, now: float) -> None:
        """Begin with the switch as it is to be at the start."""
        self._switch(self._enabled_at_start, now)

    def enable(self, on: bool, now: float) -> None:
        """Turn the switch; off sends a last command of zeros."""
        if on:
            self._switch(True, now)
        else:
            self.let_go(now)

    def _switch(self, on: bool, now: float) -> None:
        self.guard.enable(on, now)
        if self.is_waiting:
            # It is heard by the next joint state, or sent again then.
            self._send(np.zeros(len(self.joints)))

    def let_go(self, now: float) -> None:
        """Switch off with zeros: an effort controller would hold the last torque for ever."""
        if self.may_command:
            self._let_go_until_heard()
        self.guard.enable(False, now)

    def _let_go_until_heard(self) -> None:
        """Repeat zeros until every controller has them; one that does not answer is dead.

        A middleware that is left alone may take seconds to notice that a message was lost, and
        the publisher may be about to go.
        """
        for _ in range(round(LET_GO / LET_GO_EVERY)):
            self._send(np.zeros(len(self.joints)))
            if self._is_heard(LET_GO_EVERY) is not False:
                return

    def take_over(self, before: CommandOutput, now: float) -> None:
        """Go on in place of another one: at once where the same joints are commanded."""
        self._has_commanded = before._has_commanded
        was_on = before.guard.is_enabled
        is_same_arm = (before._model.joints, before.joints) == (self._model.joints, self.joints)
        if is_same_arm and OFF not in (before.mode, self.mode):
            self.guard = before.guard
            self.guard.use(self._settings, self._limits)
            return
        before.let_go(now)
        self.guard.faults = before.guard.faults
        if is_same_arm:  # else nobody has switched on what is commanded now
            self._switch(was_on, now)

    # -- torques -----------------------------------------------------------------------------

    def update(self, table: JointStateTable, torque: Array, gravity: Array, *, disagrees: bool,
               now: float) -> None:
        """Send what the guard makes of a torque.

        Args:
            table: the joint states behind it.
            torque: (n,), of the arm's joints.
            gravity: (n,), its part that holds the arm still.
            disagrees: whether the last cross-check failed.
            now: steady time [s].
        """
        if not self.may_command:
            return
        is_cut = False
        if self._drives_motors:
            # Motors have no limits in a URDF, but the joints that they drive have.
            most = self._joint_effort
            is_cut = bool((abs(torque) > most).any())
            torque, gravity = (
                self._model.actuator_torques(np.minimum(np.maximum(tau, -most), most))
                for tau in (torque, gravity))
        command = self.guard.update(Sample(
            q=table.q, v=table.v, stamps=table.stamps, received=table.received,
            torque=torque[self._order], gravity=gravity[self._order], disagrees=disagrees,
            heard=not self.is_waiting or self._has_listener(now)), now)
        self.guard.saturated |= is_cut
        if command is not None:
            self._send(command.torque)

    def tick(self, now: float) -> None:
        """Look at the time: what is due without a joint state is sent."""
        if now < self._next_tick or not self.may_command:
            return
        self._next_tick = now + TICK
        command = self.guard.tick(now)
        if command is not None:
            self._send(command.torque)

    def _has_listener(self, now: float) -> bool:
        """Say whether every subscriber has a command; one that is silent for long counts, too."""
        heard = self._is_heard(0.0) if self._has_commanded else None
        if heard is not False:
            self._silent_since = inf
            return bool(heard)
        self._silent_since = min(self._silent_since, now)
        return now - self._silent_since > HEARD_WITHIN

    def _send(self, torque: Array) -> None:
        self._message.data[:] = torque
        self._publish(self._message.message)
        self._has_commanded = True


def _commanded(model: LiveModel, given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of what is commanded.

    Raises:
        UnknownNameError: one of them there is not.
        InvalidArgumentError: one comes twice, or motors are mixed with joints.
    """
    commanded = tuple(given) or model.joints
    known = tuple(dict.fromkeys((*model.joints, *model.actuators)))
    for joint in commanded:
        if joint not in known:
            raise UnknownNameError('joint in command.joints', joint, known)
    if not set(commanded) <= set(model.joints) and not set(commanded) <= set(model.actuators):
        raise InvalidArgumentError(
            f'command.joints must be joints or motors, not both, got {list(commanded)}')
    if len(set(commanded)) != len(commanded):
        raise InvalidArgumentError(
            f'command.joints must be different joints, got {list(commanded)}')
    return commanded


def _unguarded(commanded: Sequence[str], limits: GuardLimits, joints: Sequence[str]
               ) -> Iterator[str]:
    """Yield what the guard cannot judge: without limits nothing is too much."""
    def unlimited(names: Sequence[str], most: Array) -> str:
        return ', '.join(
            name for name, limit in zip(names, most.tolist(), strict=True) if limit == inf)

    if found := unlimited(commanded, limits.max_effort):
        yield f'no effort limit: {found} (command.max_effort sets one)'
    if found := unlimited(joints, limits.max_velocity):
        yield f'no velocity limit in the URDF: {found} (no jump, no speed is too much)'


def _given(values: Values, name: str, joints: Sequence[str]) -> Array | None:
    """Return the numbers of a parameter, one for each commanded joint; None where it is empty."""
    given = values[name]
    if len(given) not in (0, len(joints)):
        raise InvalidArgumentError(
            f'{name} must be empty or {len(joints)} numbers, one for each of '
            f'{", ".join(joints)}, got {len(given)}')
    return np.array(given) if len(given) else None
