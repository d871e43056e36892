# SPDX-License-Identifier: Apache-2.0
"""The simulator as users run it: a process of its own on a real ROS graph."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import URDF_FOLDER, load, text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from geometry_msgs.msg import WrenchStamped
from ros_graph import (
    BEST_EFFORT,
    DEADLINE,
    LATCHED,
    SECOND,
    NodeProcess,
    Probe,
    running,
    stamp_of,
    time_of,
)
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import LagdynError
from ros_lagdyn.joint_stops import home_position, joint_stops
from ros_lagdyn.ros_node.wrench_message import wrench_of
from ros_lagdyn.simulation import ArmSimulation
from ros_lagdyn.wave import Wave

MILLISECOND = SECOND // 1000  # [ns]
COMMAND = [sys.executable, '-m', 'ros_lagdyn.ros_node.arm_simulator']


class User:
    """What is on the other side of the simulator's topics."""

    def __init__(self, probe: Probe) -> None:
        """Subscribe and advertise."""
        self.probe = probe
        self.states = probe.subscribe(JointState, 'joint_states', matched=False)
        self.torques = probe.publisher(Float64MultiArray, 'effort_command', 1, matched=False)
        self.wrench = probe.publisher(WrenchStamped, '~/external_wrench', 10, matched=False)

    def serve(self, seconds: float) -> list[JointState]:
        """Return the joint states of the next seconds."""
        return self.probe.collect(self.states, seconds)

    def next_state(self, condition: Callable[[JointState], Any] = lambda state: True
                   ) -> JointState:
        """Return the first of the coming joint states that satisfies a condition."""
        return self.probe.first(self.states, condition)

    def send(self, *torques: float) -> None:
        """Command torques, once the simulator listens."""
        self.probe.wait_for(lambda: self.torques.get_subscription_count() == 1)
        self.torques.publish(Float64MultiArray(data=torques))

    def push(self, frame: str, force: tuple[float, float, float]) -> None:
        """Push a link once."""
        self.probe.wait_for(lambda: self.wrench.get_subscription_count() == 1)
        message = WrenchStamped()
        message.header.frame_id = frame
        message.wrench.force.x, message.wrench.force.y, message.wrench.force.z = force
        self.wrench.publish(message)

    def reset(self) -> Any:
        """Put the arm into its initial state; return what the simulator says."""
        return self.probe.call(Trigger, '~/reset', Trigger.Request())

    def forget(self) -> None:
        """Take what a simulator that has ended left in the queues."""
        self.probe.wait_for(lambda: self.probe.node.count_publishers('joint_states') == 0)
        while self.serve(0.05):
            pass


@pytest.fixture(scope='module')
def user() -> Iterator[User]:
    """Return a test node, one for all tests: to be discovered anew takes seconds."""
    with Probe('/arm_simulator') as probe:
        yield User(probe)


Start = Callable[..., NodeProcess]


@pytest.fixture
def start(user: User, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a simulator with parameters, which ends with the test."""
    with ExitStack() as stack:
        def start_one(stem: str | None = 'two_link', /, **parameters: Any) -> NodeProcess:
            if stem is not None:
                parameters['robot_description'] = text_of(stem)
            return stack.enter_context(running('arm_simulator', tmp_path, {
                name.replace('__', '.'): value for name, value in parameters.items()}))

        yield start_one
    user.forget()


def seconds(before: JointState, after: JointState) -> float:
    """Return the time between two joint states [s]."""
    return (stamp_of(after) - stamp_of(before)) / SECOND


def test_publishes_the_arm_at_rest_until_the_first_command(
        user: User, start: Start) -> None:
    """500 Hz, joints named, brakes on; then a command that lifts the arm is obeyed."""
    start(initial_position=[1.0, 0.5])
    user.next_state()
    states = user.serve(1.0)
    rate = (len(states) - 1) / seconds(states[0], states[-1])
    assert 250.0 < rate < 510.0  # a busy machine may miss ticks, but never adds any
    for state in states:
        assert list(state.name) == ['joint1', 'joint2']
        assert list(state.position) == [1.0, 0.5]
        assert list(state.velocity) == [0.0, 0.0]
        assert list(state.effort) == [0.0, 0.0]
        assert state.header.frame_id == ''
    assert abs(stamp_of(states[-1]) - time.time_ns()) < SECOND

    user.send(75.0, 2.0)
    state = user.next_state(lambda state: state.position[0] > 1.05)
    assert list(state.effort) == [75.0, 2.0]
    assert state.velocity[0] > 0.0
    user.send(1000.0, 2.0)
    user.next_state(lambda state: list(state.effort) == [80.0, 2.0])


def test_an_arm_that_waves_stops_at_the_first_command(user: User, start: Start) -> None:
    """It swings as Wave says; brakes then stop it, and the command acts on an arm at rest."""
    centre, model = np.array([1.0, 0.5]), load('two_link', 'lagrangian')
    start(initial_position=centre.tolist(), wave_until_command=True)
    # Back from half-way up: from then on the time of the wave is known.
    user.next_state(lambda state: state.position[0] > centre[0] + 0.3 and state.velocity[0] > 0.0)
    assert user.reset().success
    user.next_state(lambda state: state.position[0] < centre[0] + 0.2 and state.velocity[0] > 0.0)
    user.probe.wait_for(lambda: seconds(user.states[0], user.states[-1]) > 2.0)
    wave, (lower, upper) = Wave(model, centre), joint_stops(model.arm)
    w = 2.0 * np.pi / Wave.PERIOD  # of the first joint: its sine and cosine tell the time
    times = []
    for state in user.states:
        t = np.arctan2(w * (state.position[0] - centre[0]), state.velocity[0]) / w
        times.append(t % Wave.PERIOD)
        for found, expected in zip(
                (state.position, state.velocity, state.effort), wave.at(times[-1]), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)
        assert (lower < state.position).all() and (state.position < upper).all()
    for (before, after), passed in zip(pairwise(user.states), np.diff(times), strict=True):
        h = seconds(before, after)
        if h > 0.1:
            continue  # the arm does not leap where the machine slept
        assert passed == pytest.approx(h, abs=1e-8)
        # The trapezoidal rule is wrong by h^2 / 12 times A w^3, at most 0.8 * 2.6^3 rad/s^3.
        np.testing.assert_allclose(
            np.subtract(after.position, before.position) / h,
            np.add(after.velocity, before.velocity) / 2.0, rtol=0.0, atol=1.2 * h**2 + 1e-9)

    user.send(5.0, 1.0)
    user.probe.wait_for(lambda: list(user.states[-1].effort) == [5.0, 1.0])
    number = next(number for number, state in enumerate(user.states)
                  if list(state.effort) == [5.0, 1.0])
    before, after = user.states[number - 1:number + 1]
    expected = ArmSimulation(
        load('two_link', 'closed_form'), q=np.array(before.position), v=np.zeros(2))
    expected.step(np.array([5.0, 1.0]), min(seconds(before, after), 0.1))
    np.testing.assert_allclose(after.position, expected.q, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(after.velocity, expected.v, rtol=0.0, atol=1e-9)
    assert user.reset().success
    user.next_state(lambda state: state.velocity[0] > 0.0 and state.position[0] > centre[0])


def test_moves_as_the_mathematics_says(user: User, start: Start) -> None:
    """The accelerations of successive messages are those of the forward dynamics."""
    start(initial_position=[1.0, 0.5], friction=False, command_joints=['joint2', 'joint1'])
    user.next_state()
    user.send(1.0, 20.0)
    user.next_state(lambda state: abs(state.velocity[0]) > 0.1)
    states = [state for state in user.serve(0.2) if state.position[0] > -0.3]
    dynamics = load('two_link', 'lagrangian')
    checked = 0
    for before, after in pairwise(states):
        h = seconds(before, after)
        if h > 0.01 or max(map(abs, after.position)) > 2.8:
            continue
        q, v = (np.mean([before.position, after.position], axis=0),
                np.mean([before.velocity, after.velocity], axis=0))
        a = (np.array(after.velocity) - np.array(before.velocity)) / h
        expected = dynamics.forward_dynamics(q, v, [20.0, 1.0])
        np.testing.assert_allclose(a, expected, rtol=0.02, atol=0.2)
        checked += 1
    assert checked > 10


def test_reset_push_and_parameters(user: User, start: Start) -> None:
    """Without gravity a push moves the arm, ends by itself, and a reset brings it back."""
    start(initial_position=[1.0, 0.5], hold_until_command=False, gravity=[0.0, 0.0, 0.0],
          external_wrench__timeout=0.1)
    states = [user.next_state(), *user.serve(0.2)]
    assert all(list(state.position) == [1.0, 0.5] for state in states)

    user.push('tool0', (0.0, 0.0, 40.0))
    user.next_state(lambda state: abs(state.position[1] - 0.5) > 1e-3)
    # Friction brings it to rest, since the push is over.
    user.next_state(lambda state: list(state.velocity) == [0.0, 0.0])

    # Unknown links and numbers that are none are ignored.
    rest = user.next_state()
    user.push('nowhere', (0.0, 0.0, 40.0))
    user.push('tool0', (0.0, 0.0, float('nan')))
    assert all(state.position == rest.position for state in user.serve(0.2))

    # Gravity comes back while it runs: the arm falls.
    assert user.reset().success
    user.next_state(lambda state: list(state.position) == [1.0, 0.5])
    assert user.probe.try_set({'gravity': [0.0, 0.0, -9.81]}).successful
    user.next_state(lambda state: abs(state.velocity[0]) > 0.1)
    refused = user.probe.try_set({'initial_position': [0.0, 0.0, 0.0]})
    assert not refused.successful and 'must be 2 numbers' in refused.reason
    refused = user.probe.try_set({'initial_position': [-2.0, 0.0]})
    assert not refused.successful and 'within its stops' in refused.reason
    assert user.probe.try_set({'initial_position': [0.7, 0.2]}).successful
    assert user.probe.try_set({'hold_until_command': True}).successful
    answer = user.reset()
    assert answer.success and 'brakes are on' in answer.message
    user.next_state(lambda state: list(state.position) == [0.7, 0.2])
    assert all(list(state.position) == [0.7, 0.2] for state in user.serve(0.2))

    assert user.probe.try_set({'rate': 50.0}).successful
    user.serve(0.1)
    assert 5 <= len(user.serve(0.5)) <= 27


def test_a_push_sent_with_best_effort_is_felt(user: User, start: Start) -> None:
    """As sensors send it; some of it may be lost."""
    start(initial_position=[1.0, 0.5], hold_until_command=False, gravity=[0.0, 0.0, 0.0])
    user.next_state()
    push = user.probe.publisher(WrenchStamped, '~/external_wrench', BEST_EFFORT)
    message = WrenchStamped()
    message.header.frame_id, message.wrench.force.z = 'tool0', 40.0
    user.probe.ask(push, message, lambda: abs(user.states[-1].position[1] - 0.5) > 1e-3)
    user.probe.node.destroy_publisher(push)


def test_a_joint_that_is_commanded_no_longer_gets_no_torque(user: User, start: Start) -> None:
    """What it was told last is not held for ever; the others keep theirs."""
    start(initial_position=[1.0, 0.5], gravity=[0.0, 0.0, 0.0])
    user.next_state()
    user.send(5.0, 3.0)
    user.next_state(lambda state: list(state.effort) == [5.0, 3.0])
    user.probe.set({'command_joints': ['joint1']})
    user.next_state(lambda state: list(state.effort) == [5.0, 0.0])
    user.send(-4.0)
    user.next_state(lambda state: list(state.effort) == [-4.0, 0.0])
    user.probe.set({'command_joints': ['joint2', 'joint1']})
    user.next_state(lambda state: list(state.effort) == [-4.0, 0.0])
    user.send(2.0, 1.0)
    user.next_state(lambda state: list(state.effort) == [1.0, 2.0])


def test_a_command_sent_at_once_after_a_reset_takes_effect(user: User, start: Start) -> None:
    """Brakes hold the arm for 0.2 s; then it moves from its initial position, by that command."""
    start(initial_position=[1.0, 0.5])
    user.next_state()
    user.send(0.0, 0.0)
    user.next_state(lambda state: state.position[0] < 0.9)
    asked = time.time_ns()
    assert user.reset().success
    answered = time.time_ns()
    user.send(75.0, 2.0)
    user.states.clear()
    user.probe.wait_for(
        lambda: user.states and list(user.states[-1].effort) == [75.0, 2.0], what='the command')
    held = [state for state in user.states
            if list(state.position) == [1.0, 0.5] and not any(state.effort)]
    moved = next(state for state in user.states if list(state.effort) == [75.0, 2.0])
    # The reset was between question and answer; a tick of 2 ms and a busy machine come on top.
    assert asked + 199 * MILLISECOND < stamp_of(moved) < answered + (200 + 400) * MILLISECOND
    # From rest, in one tick of at most 0.1 s, at the acceleration of an arm that was let go.
    expected = ArmSimulation(
        load('two_link', 'closed_form'), q=np.array([1.0, 0.5]), v=np.zeros(2))
    expected.step(np.array([75.0, 2.0]), min(seconds(held[-1], moved), 0.1))
    np.testing.assert_allclose(moved.position, expected.q, rtol=0.0, atol=1e-9)


def test_gravity_may_be_given_in_the_axes_of_a_link_at_the_base(user: User, start: Start) -> None:
    """The energy of the falling arm is constant, with gravity as the root link sees it."""
    # rpy = (pi/2, 0, 0): the frame's z axis is the root's -y axis, its y axis the root's z axis.
    mounted = text_of('two_link').replace('</robot>', """<link name="wall"/>
      <joint name="mount" type="fixed"><parent link="base_link"/><child link="wall"/>
        <origin rpy="1.5707963267948966 0 0"/></joint></robot>""")
    start(None, robot_description=mounted, gravity_frame='wall', gravity=[2.0, -9.0, 0.5],
          friction=False, hold_until_command=False, initial_position=[1.0, 0.5])
    model = load_dynamics(mounted, 'lagrangian', [2.0, -0.5, -9.0])
    start_energy = model.potential_energy([1.0, 0.5])
    user.next_state()  # by now it may lie at its stops
    user.reset()
    answered = time.time_ns()  # older states may still be on their way
    fallen = user.next_state(
        lambda state: stamp_of(state) > answered and abs(state.velocity[0]) > 0.5)
    q, v = fallen.position, np.array(fallen.velocity)
    kinetic = 0.5 * v @ model.mass_matrix(q) @ v
    assert kinetic > 0.1  # [J]
    # The simulation keeps energy to 1e-6 of it; with another gravity it would be off by joules.
    assert kinetic + model.potential_energy(q) == pytest.approx(
        start_energy, abs=1e-4 * abs(start_energy))
    refused = user.probe.try_set({'gravity_frame': 'link1'})
    assert not refused.successful and '"link1" moves' in refused.reason


def test_bad_commands_are_ignored_and_counted(
        user: User, start: Start) -> None:
    """Wrong lengths and numbers that are none do not open the brakes."""
    simulator = start(initial_position=[1.0, 0.5])
    user.next_state()
    for torques in ((1.0,), (1.0, 2.0, 3.0), (), (float('nan'), 0.0), (float('inf'), 0.0)):
        user.send(*torques)
        user.serve(0.05)
    assert all(list(state.position) == [1.0, 0.5] for state in user.serve(0.1))
    said = 'it must have 2 numbers, for joint1, joint2, got 1'
    user.probe.wait_for(lambda: said in simulator.output(), what=said)
    assert simulator.output().count('ignored') == 1  # throttled
    user.send(0.0, 0.0)
    user.next_state(lambda state: state.position[0] < 0.99)


def test_a_late_description_and_a_new_one(user: User, start: Start) -> None:
    """It says what it waits for, starts when the text comes, and takes another arm later."""
    simulator = start(None, robot_description_timeout=0.3, hold_until_command=False,
                      engine='closed_form')
    user.probe.wait_for(lambda: simulator.output().count('waiting for a URDF') >= 2)
    assert '/robot_description' in simulator.output()
    assert not user.reset().success
    assert not user.states
    description = user.probe.publisher(String, 'robot_description', LATCHED, matched=False)
    description.publish(String(data='<robot'))
    user.probe.wait_for(lambda: 'robot_description refused' in simulator.output())
    path = str(URDF_FOLDER / 'two_link.urdf')
    description.publish(String(data=path))  # no message opens files
    refused = user.probe.try_set({'robot_description': path})  # no request does, either
    assert not refused.successful and 'at the start only' in refused.reason
    user.probe.wait_for(lambda: simulator.output().count('robot_description refused') == 2)
    description.publish(String(data=text_of('two_link')))
    user.next_state(lambda state: list(state.name) == ['joint1', 'joint2'])
    fallen = user.next_state(lambda state: state.position[0] < -0.3)

    # The same joints with another mass: the arm stays where it is.
    heavier = text_of('two_link').replace('name="two_link"', 'name="heavier"')
    description.publish(String(data=heavier))
    user.probe.wait_for(lambda: '"heavier"' in simulator.output())
    assert user.next_state().position[0] == pytest.approx(fallen.position[0], abs=0.1)

    description.publish(String(data=text_of('spatial_3r')))
    state = user.next_state(lambda state: len(state.name) == 3)
    assert len(state.position) == len(state.velocity) == len(state.effort) == 3
    user.probe.node.destroy_publisher(description)


def test_time_of_a_simulated_clock_counts(user: User, start: Start) -> None:
    """Under use_sim_time the arm moves with /clock: not while it stands, nor when it goes back."""
    start(initial_position=[1.0, 0.5], hold_until_command=False, use_sim_time=True)
    clock = user.probe.publisher(Clock, '/clock')

    def tell(milliseconds: int) -> JointState:
        user.states.clear()
        clock.publish(Clock(clock=time_of(milliseconds * MILLISECOND)))
        user.probe.wait_for(lambda: any(
            stamp_of(state) == milliseconds * MILLISECOND for state in user.states))
        return user.states[-1]

    def first() -> bool:
        # Until both sides have found each other, messages are lost.
        nonlocal begin
        begin += 2
        clock.publish(Clock(clock=time_of(begin * MILLISECOND)))
        return bool(user.states)

    begin = 100_000
    user.probe.wait_for(first)
    begin += 1000
    tell(begin)
    # Two milliseconds at a time: every message of the clock makes one joint state.
    states = [tell(begin + 2 * k) for k in range(1, 50)]
    expected = ArmSimulation(
        load('two_link', 'closed_form'), q=states[0].position, v=states[0].velocity)
    for state in states[1:]:
        expected.step(np.zeros(2), 0.002)
        np.testing.assert_allclose(state.position, expected.q, atol=1e-9)
    assert not user.serve(0.1)  # the clock stands, and so does the arm
    # A bag that starts anew: no motion for the time that went back, then as before.
    back = tell(50_000)
    np.testing.assert_array_equal(back.position, states[-1].position)
    # A leap of an hour is a tick of 0.1 s.
    leap = tell(3_650_000)
    expected.step(np.zeros(2), 0.1)
    np.testing.assert_allclose(leap.position, expected.q, atol=1e-9)
    user.probe.node.destroy_publisher(clock)


@pytest.mark.parametrize('stem', ['five_bar', 'two_link_remote'])
def test_arms_with_mimic_joints_start_within_their_limits(
        user: User, start: Start, stem: str) -> None:
    """Only the independent joints are published, at a position where they can move."""
    start(stem)
    state = user.next_state()
    assert list(state.name) == list(load(stem, 'closed_form').joints)
    arm = load(stem, 'closed_form').arm
    np.testing.assert_array_equal(state.position, home_position(arm))
    for joint, position in zip(arm.independent_joints, state.position, strict=True):
        assert joint.limit.lower < position < joint.limit.upper


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize('stem', ['two_link', None])
def test_signals_end_it_cleanly(
        user: User, start: Start, number: int, stem: str | None) -> None:
    """Running or waiting, it ends at once with exit code 0 and without a traceback."""
    simulator = start(stem)
    user.probe.wait_for(lambda: user.torques.get_subscription_count() == 1)
    simulator.send(number)
    assert simulator.wait(3.0) == 0
    assert 'Traceback' not in simulator.output() and 'rror' not in simulator.output()


@pytest.mark.parametrize(('arguments', 'code', 'said'), [
    (['--help'], 0, 'usage: arm_simulator'),
    (['--nonsense'], 2, 'unknown argument "--nonsense"'),
    (['--ros-args', '-p', 'rate:=0.0'], 2, 'rate'),
    (['--ros-args', '-p', 'engine:=magic'], 2, 'engine must be one of'),
    (['--ros-args', '-p', 'robot_description:=<robot/>'], 2, 'has no <link>'),
])
def test_bad_arguments_end_it_with_a_sentence(
        arguments: list[str], code: int, said: str) -> None:
    """One line on stderr and exit code 2; --help needs no graph."""
    run = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True,
                         timeout=DEADLINE, check=False)
    assert run.returncode == code, run.stderr
    assert said in (run.stdout if code == 0 else run.stderr)
    assert code == 0 or len(run.stderr.splitlines()) == 1


def test_a_wrench_message_becomes_a_wrench_in_the_axes_of_its_link() -> None:
    """The prefix of TF frames is taken off; unknown links and NaN are refused."""
    arm = load('two_link', 'closed_form').arm
    message = WrenchStamped()
    message.header.frame_id = 'left/tool0'
    message.wrench.force.x, message.wrench.torque.z = 1.0, 2.0
    wrench = wrench_of(message, arm, 'left/')
    assert (wrench.frame, wrench.axes) == ('tool0', 'frame')
    assert (wrench.force, wrench.torque) == ((1.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    with pytest.raises(LagdynError, match='left/tool0'):
        wrench_of(message, arm)
    message.wrench.force.y = float('nan')
    with pytest.raises(LagdynError, match='force must be 3 finite numbers'):
        wrench_of(message, arm, 'left/')
