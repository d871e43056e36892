# SPDX-License-Identifier: Apache-2.0
"""The node `arm_simulator`: an arm that is not there, for whoever sends torques.

It takes effort_command, moves the arm of the robot_description and publishes joint_states.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header
from std_srvs.srv import Trigger

from ros_lagdyn.arm import Arm
from ros_lagdyn.dynamics import ENGINES, LARGEST_STATE, dynamics_from_slim_urdf
from ros_lagdyn.errors import InvalidArgumentError, LagdynError, UnknownNameError
from ros_lagdyn.joint_stops import home_position, joint_stops
from ros_lagdyn.live_model import gravity_in_root
from ros_lagdyn.recent_wrenches import RecentWrenches
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.description import (
    DESCRIPTION_PARAMETERS,
    RobotDescription,
    requested_text,
)
from ros_lagdyn.ros_node.fast_lane import LOOK_UP, waiting_messages
from ros_lagdyn.ros_node.messages import INPUT_QOS, JointMessage
from ros_lagdyn.ros_node.node_parameters import GRAVITY_PARAMETERS
from ros_lagdyn.ros_node.parameters import Parameters, ParameterSpec, Values
from ros_lagdyn.ros_node.requests import survive_requests
from ros_lagdyn.ros_node.running import NO_CLOCK, lacks_clock, run, spare_long_lived
from ros_lagdyn.ros_node.wrench_message import wrench_of
from ros_lagdyn.simulation import ArmSimulation, DivergedError
from ros_lagdyn.urdf_model import arm_from_slim_urdf
from ros_lagdyn.urdf_text import read_urdf_text, slim_urdf
from ros_lagdyn.wave import Wave

PURPOSE = 'Simulates the arm of the robot_description: takes torques, publishes joint states.'
LONGEST_TICK = 0.1  # [s]: a machine that slept does not make the arm leap
QUIET = 5.0  # [s] between two warnings of the same kind
# Brakes open when the torque can be trusted: it has been the largest so far, but for a hundredth,
# for a while. One that still ramps up from zero would drop the arm.
GROWN_FOR = 0.2  # [s]
GROWING_FOR = 1.0  # [s], where the last command was still growing: a pause of a busy machine
GROWTH = 0.01

PARAMETERS = (
    *DESCRIPTION_PARAMETERS,
    ParameterSpec(
        name='engine', default='pinocchio', choices=ENGINES,
        description='Which engine computes the motion.'),
    ParameterSpec(
        name='rate', default=500.0, minimum=1.0, maximum=2000.0,
        description='Joint states per second [Hz].'),
    *GRAVITY_PARAMETERS,
    ParameterSpec(
        name='initial_position', default=[], entries=float,
        description='Positions at the start and after a reset, in the order of the arm [rad] or '
                    '[m]. Empty: 0, or between the stops where 0 is not.'),
    ParameterSpec(
        name='initial_velocity', default=[], entries=float,
        description='Velocities at the start and after a reset [rad/s] or [m/s]. Empty: 0. An arm '
                    'whose brakes are on rests whatever this says.'),
    ParameterSpec(
        name='command_joints', default=[], entries=str,
        description='Joints in the order of effort_command; one left out gets no torque. Empty: '
                    'all joints in the order of the arm.'),
    ParameterSpec(
        name='hold_until_command', default=True,
        description='Brakes hold the arm until effort_command has come and not grown any more for '
                    '0.2 s. False opens them; true counts from the next reset on.'),
    ParameterSpec(
        name='wave_until_command', default=False,
        description='With hold_until_command: until the first effort_command the arm swings '
                    'gently around its initial position; then the brakes stop it, and open.'),
    ParameterSpec(
        name='friction', default=True,
        description='Whether damping and friction of the URDF act.'),
    ParameterSpec(
        name='external_wrench.timeout', default=0.5, minimum=0.0, maximum=1e6,
        description='A push ends this long after its last message [s]; 0: never.'),
)
# What needs the simulation to be made anew; the others are looked at when they are needed.
_OF_THE_ARM = ('engine', 'gravity', 'gravity_frame', 'initial_position', 'initial_velocity',
               'command_joints', 'friction')


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plant:
    """What follows from a description and the parameters."""

    text: str
    arm: Arm
    simulation: ArmSimulation
    wave: Wave
    command_order: Array  # indices of the joints that effort_command moves
    command_joints: tuple[str, ...]
    initial_position: Array  # (n,)
    initial_velocity: Array  # (n,)


def _plant(urdf: str, values: Values) -> _Plant:
    """Build the simulation, in its initial state.

    Raises:
        LagdynError: the description or a parameter does not fit.
    """
    text = slim_urdf(read_urdf_text(urdf.encode(errors='surrogatepass')))  # never a path
    arm = arm_from_slim_urdf(text)
    dynamics = dynamics_from_slim_urdf(text, values['engine'], gravity_in_root(
        arm, values['gravity'], values['gravity_frame']))
    n = len(arm.joints)
    initial = {'initial_position': home_position(arm), 'initial_velocity': np.zeros(n)}
    for name in initial:
        given = values[name]
        if len(given) not in (0, n):
            raise InvalidArgumentError(
                f'{name} must be {n} numbers, one for each of the joints '
                f'{", ".join(arm.joints)}, got {len(given)}')
        if len(given):
            initial[name] = np.array(given, dtype=float)
    command_joints = tuple(values['command_joints']) or arm.joints
    for joint in command_joints:
        if joint not in arm.joints:
            raise UnknownNameError('joint of command_joints', joint, arm.joints)
    if len(set(command_joints)) < len(command_joints):
        raise InvalidArgumentError(
            f'command_joints must name each joint once, got {", ".join(command_joints)}')
    return _Plant(
        text=urdf,
        arm=arm,
        simulation=ArmSimulation(
            dynamics, friction=values['friction'], q=initial['initial_position'],
            v=initial['initial_velocity']),
        wave=Wave(dynamics, initial['initial_position'], friction=values['friction']),
        command_order=np.array([arm.joints.index(joint) for joint in command_joints]),
        command_joints=command_joints,
        **initial,
    )


class ArmSimulator(Node):
    """Moves one arm in time and tells where it is."""

    def __init__(self, **node_arguments: Any) -> None:
        """Declare, subscribe, and start as soon as there is a description.

        Raises:
            LagdynError: a parameter, or the description among them, cannot be taken.
        """
        super().__init__('arm_simulator', **node_arguments)
        survive_requests(self)
        self._settings = Parameters(self, PARAMETERS)
        values = self._settings.values
        self._plant: _Plant | None = None
        self._torques: Array | None = None  # (n,), None before the first command
        self._braked = values['hold_until_command']
        self._wrenches = RecentWrenches(values['external_wrench.timeout'])
        self._waved = 0.0  # [s], how long the arm has been waving
        self._ignored = 0  # commands
        self._diverged = False  # since the last command
        self._largest: float | None = None  # [Nm] or [N] of any joint, while braked
        self._grown_since = 0.0  # steady time [s]
        self._is_growing = False  # at the last command
        self._last: int | None = None  # [ns], node clock at the last tick
        self._message = JointMessage((), Header())

        self._publisher = self.create_publisher(JointState, 'joint_states', QoSProfile(depth=10))
        # The newest command counts, older ones need not be kept.
        self.fast_lane = self.create_subscription(
            Float64MultiArray, 'effort_command', self._on_command, QoSProfile(depth=1))
        self.create_subscription(
            WrenchStamped, '~/external_wrench', self._on_wrench, INPUT_QOS)
        self.create_service(Trigger, '~/reset', self._on_reset)

        self._starting = True
        self._description = RobotDescription(self, values['robot_description'], self._on_text)
        self._starting = False
        self._due = time.monotonic()  # [s], the next joint state
        # Of a steady clock: that of the node may be simulated, stand or leap.
        self._reminder = self.create_timer(
            values['robot_description_timeout'] or QUIET, self._remind,
            clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._settings.accept = self._accept

    # What the arm is.

    def _on_text(self, text: str) -> None:
        if self._plant is not None and self._plant.text == text:
            return
        try:
            plant = _plant(text, self._settings.values)
        except LagdynError as error:
            if self._starting:
                raise
            self.get_logger().error(f'robot_description refused: {error}')
            return
        self._take(plant)
        spare_long_lived()
        self.get_logger().info(
            f'simulating "{plant.arm.name}" with the joints {", ".join(plant.arm.joints)}; '
            f'effort_command: {", ".join(plant.command_joints)}'
            + ('; the brakes hold it until the first command' if self._braked else ''))

    def _take(self, plant: _Plant) -> None:
        """Use another simulation; the same joints stay where they are."""
        old, self._plant = self._plant, plant
        if old is None or old.text != plant.text:
            self._wrenches.clear()  # their links may be gone
        if old is not None and old.arm.joints == plant.arm.joints:
            q = np.clip(old.simulation.q, *joint_stops(plant.arm))
            plant.simulation.place(q, old.simulation.v)
            plant.simulation.tau = old.simulation.tau
            if self._torques is not None:  # a joint that is commanded no longer gets no torque
                still = np.zeros_like(self._torques)
                still[plant.command_order] = self._torques[plant.command_order]
                self._torques = still
            return
        self._message = JointMessage(plant.arm.joints, Header(), with_state=True)
        self._start_again(plant)

    def _start_again(self, plant: _Plant) -> None:
        self._braked = self._settings.values['hold_until_command']
        self._waved = 0.0
        self._torques = self._largest = None
        self._wrenches.clear()
        plant.simulation.place(plant.initial_position, plant.initial_velocity)
        plant.simulation.tau = np.zeros(len(plant.arm.joints))

    def _accept(self, values: Values) -> None:
        """Apply changed parameters; raises a LagdynError to refuse them all."""
        old = self._settings.values
        new_text = values['robot_description'] != old['robot_description']
        if new_text and not values['robot_description'].strip():
            raise InvalidArgumentError('robot_description cannot be taken back')
        text = (requested_text(values['robot_description']) if new_text
                else self._plant and self._plant.text)
        if text and (new_text or any(
                values[name] != old[name] for name in _OF_THE_ARM)):
            self._take(_plant(text, values))
        # From here on nothing can be refused.
        if new_text:
            self._description.ignore_topic()
        if not values['hold_until_command']:
            self._braked = False
        self._wrenches.timeout = values['external_wrench.timeout']
        if values['rate'] != old['rate']:
            self._due = time.monotonic()

    def _remind(self) -> None:
        if not self._description.has_come:
            self.get_logger().warning(self._description.awaited)
        elif lacks_clock(self):
            self.get_logger().warning(f'{NO_CLOCK}: the arm stands still')
        else:
            self._reminder.cancel()

    # What acts on it.

    def _on_command(self, message: Float64MultiArray) -> None:
        plant = self._plant
        if plant is None:
            self._ignore('there is no robot_description yet')
            return
        given = np.array(message.data)
        if len(given) != len(plant.command_joints):
            self._ignore(f'it must have {len(plant.command_joints)} numbers, for '
                         f'{", ".join(plant.command_joints)}, got {len(given)}')
        elif not (abs(given) <= LARGEST_STATE).all():
            self._ignore(f'it must be finite, at most {LARGEST_STATE:g}, got {given.tolist()}')
        else:
            torques = np.zeros(len(plant.arm.joints))
            torques[plant.command_order] = given
            self._torques = torques
            self._diverged = False
            if self._braked:
                self._prove(torques, time.monotonic())

    def _ignore(self, reason: str) -> None:
        self._ignored += 1
        self.get_logger().warning(
            f'effort_command ignored ({self._ignored} so far): {reason}',
            throttle_duration_sec=QUIET)

    def _prove(self, torques: Array, now: float) -> None:
        """Note since when torques have not grown."""
        largest = float(abs(torques).max())
        self._is_growing = (
            self._largest is not None and largest > (1.0 + GROWTH) * self._largest)
        if self._largest is None or self._is_growing:
            self._largest, self._grown_since = largest, now

    def _release(self, simulation: ArmSimulation) -> None:
        """Open the brakes if it is time: what they held or stopped starts from rest."""
        if not self._braked or self._largest is None or self._diverged:
            return
        wait = GROWING_FOR if self._is_growing else GROWN_FOR
        if time.monotonic() >= self._grown_since + wait:
            self._braked = False
            simulation.v = np.zeros_like(simulation.v)

    @property
    def _waves(self) -> bool:
        return (self._braked and self._torques is None
                and bool(self._settings.values['wave_until_command']))

    def _on_wrench(self, message: WrenchStamped) -> None:
        if self._plant is None:
            return
        try:
            wrench = wrench_of(message, self._plant.arm)
        except LagdynError as error:
            self.get_logger().warning(
                f'external_wrench ignored: {error}', throttle_duration_sec=QUIET)
            return
        self._wrenches.put(wrench, time.monotonic())

    def _on_reset(self, _: Any, response: Any) -> Any:
        response.success = self._plant is not None
        if self._plant is None:
            response.message = self._description.awaited
        else:
            self._start_again(self._plant)
            response.message = 'the arm is in its initial state' + (
                ', its brakes are on' if self._braked else '')
        return response

    # What it does.

    @property
    def longest_wait(self) -> float:
        """How long the loop may wait for something to happen [s]."""
        return min(max(self._due - time.monotonic(), 0.0), LOOK_UP)

    def take_fast_lane(self) -> None:
        """Take the commands that wait."""
        for message in waiting_messages(self.fast_lane):
            self._on_command(message)

    def tick(self) -> None:
        """Move the arm and tell where it is, if it is time.

        rclpy's executor would take more time for the timer and the commands than the arm does.
        """
        now, period = time.monotonic(), 1.0 / self._settings.values['rate']
        if now < self._due:
            return
        self._due += period
        if self._due <= now:  # held up: it does not make up for it by a burst
            self._due = now + period
        self._go_on()

    def _go_on(self) -> None:
        plant = self._plant
        now = self.get_clock().now()
        # A simulated clock is 0 until it starts, and may stand: then so does the arm.
        if plant is None or now.nanoseconds in (0, self._last):
            return
        elapsed = 0.0 if self._last is None else 1e-9 * (now.nanoseconds - self._last)
        elapsed = min(max(elapsed, 0.0), LONGEST_TICK)
        self._last = now.nanoseconds
        simulation, message = plant.simulation, self._message
        self._release(simulation)
        if self._waves:
            self._waved += elapsed
            simulation.q, simulation.v, simulation.tau = plant.wave.at(self._waved)
        elif not self._braked:
            self._move(simulation, elapsed)
        message.position[:] = simulation.q
        rests = self._braked and not self._waves
        message.velocity[:] = 0.0 if rests else simulation.v
        message.effort[:] = 0.0 if rests else simulation.tau
        message.message.header.stamp = now.to_msg()
        self._publisher.publish(message.message)

    def _move(self, simulation: ArmSimulation, duration: float) -> None:
        torques = self._torques if self._torques is not None else np.zeros_like(simulation.q)
        try:
            simulation.step(torques, duration, self._wrenches.current(time.monotonic()))
        except DivergedError as error:
            self._braked = self._diverged = True
            self._largest = None
            simulation.tau = np.zeros_like(simulation.q)
            self.get_logger().error(
                f'{error}; the brakes are on until the next command',
                throttle_duration_sec=QUIET)


def main(arguments: list[str] | None = None) -> int:
    """Run the node until SIGINT or SIGTERM; return the exit code."""
    return run('arm_simulator', PURPOSE, ArmSimulator, arguments)


if __name__ == '__main__':
    raise SystemExit(main())
