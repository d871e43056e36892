# SPDX-License-Identifier: Apache-2.0
"""Node and simulator in a loop: two arms at once, each in a namespace, each in two processes.

Both arms name their joints joint1 and joint2 and are in different poses, so a joint state or a
command that went to the wrong arm would be seen at once. The simulator has no friction: what holds
an arm is the torque alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from shipped import SEED, load, text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from geometry_msgs.msg import WrenchStamped
from ros_graph import SECOND, Probe, running, stamp_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.ros_node.command_output import LET_GO, LET_GO_EVERY

Array = np.ndarray

ARMS = ('two_link', 'five_bar')
POSES = 10
FROM_STOPS = 0.2  # [rad]
HOLD = 10 * SECOND  # [ns], by the stamps of the joint states
STAY = 1e-3  # [rad]: torques wrong by 1e-5 of themselves take an arm without friction further
FALL = 0.1  # [rad]
# A busy machine may be silent for longer than a robot: what the guard makes of that is not the
# question here.
COMMANDS = {'command.enable_at_start': True, 'command.timeout': 1.0}


class Loop:
    """One arm: its node, its simulator, and what they tell each other."""

    def __init__(self, stem: str, probe: Probe) -> None:
        """Listen to both."""
        self.model = load(stem, 'lagrangian')  # neither the node's engine nor the simulator's
        self.stops = joint_stops(self.model.arm)
        self.probe = probe
        self.node = probe.of(f'/{stem}/lagdyn')
        self.simulator = probe.of(f'/{stem}/arm_simulator')
        self.node.wait_for_state('active')
        self.states = self.node.subscribe(JointState, 'joint_states')
        self._torques = self.node.publisher(Float64MultiArray, 'effort_command')
        lower, upper = self.stops
        self.poses = np.random.default_rng(SEED).uniform(
            lower + FROM_STOPS, upper - FROM_STOPS, (POSES, len(lower)))

    def place(self, pose: Array) -> None:
        """Let the arm rest at a pose, brakes on, until a command comes; none is on its way."""
        self.node.set({'command.mode': 'off'})
        # The last command was of zeros, and it has arrived.
        self.next_state(lambda state: not any(state.effort))
        self.simulator.set({'initial_position': pose.tolist()})
        assert self.simulator.call(Trigger, '~/reset', Trigger.Request()).success
        with self.node.listening(JointState, '~/inverse_dynamics') as answers:
            self.probe.wait_for(
                lambda: any(list(answer.position) == pose.tolist() for answer in answers),
                what=f'an answer at {pose}')

    def drive(self, torques: Array) -> JointState:
        """Command torques in place of the node, until they act; return the first such state."""
        command = Float64MultiArray(data=torques.tolist())
        self.probe.ask(self._torques, command, lambda: self.states[-1:] and
                       self.states[-1].effort == command.data)
        return next(state for state in self.states if state.effort == command.data)

    def compensate(self) -> None:
        """Let the node command gravity, and forget all states before the brakes open."""
        self.node.set({'command.mode': 'gravity'})
        self.next_state(lambda state: any(state.effort))

    def next_state(self, condition: Any = lambda state: True) -> JointState:
        """Wait for a joint state; only those from it on are kept."""
        return self.probe.first(self.states, condition)

    def elapsed(self) -> int:
        """Return how long the states that are kept last [ns]."""
        return stamp_of(self.states[-1]) - stamp_of(self.states[0])


@pytest.fixture(scope='module')
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Loop]]:
    """Run both arms."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(running(
                module, tmp_path_factory.mktemp(stem), {'robot_description': text_of(stem), **own},
                namespace=f'/{stem}', arguments=['-r', '~/command:=effort_command']))
            for stem in ARMS
            for module, own in (('dynamics_node', COMMANDS),
                                ('arm_simulator', {'friction': False}))]
        probe = stack.enter_context(Probe('', *processes))
        yield {stem: Loop(stem, probe) for stem in ARMS}


@pytest.fixture(params=ARMS)
def loop(request: pytest.FixtureRequest, loops: Mapping[str, Loop]) -> Loop:
    """Return each arm."""
    return loops[request.param]


@pytest.mark.parametrize('number', range(POSES))
def test_gravity_compensation_holds_both_arms_at_once_for_ten_seconds(
        loops: Mapping[str, Loop], number: int) -> None:
    """In every joint state every joint is within 1e-3 rad of where it was let go."""
    for loop in loops.values():
        loop.place(loop.poses[number])
        assert abs(loop.model.gravity(loop.poses[number])).max() > 1.0  # [Nm]
    for loop in loops.values():
        loop.compensate()
    for loop in loops.values():
        loop.probe.wait_for(lambda loop=loop: loop.elapsed() >= HOLD, 3 * HOLD / SECOND,
                            'ten seconds of joint states')
    for stem, loop in loops.items():
        moved = abs(np.array([state.position for state in loop.states]) - loop.poses[number])
        assert moved.max() < STAY, stem


def test_switched_off_it_sends_zeros_and_the_arm_falls(loop: Loop) -> None:
    """Within a second: it takes less than 0.2 s, the rest is for a busy machine."""
    pose = max(loop.poses, key=lambda q: abs(loop.model.gravity(q)).max())
    loop.place(pose)
    loop.compensate()
    with loop.node.listening(Float64MultiArray, 'effort_command') as commands:
        loop.node.set({'command.mode': 'off'})
        start = stamp_of(loop.next_state(lambda state: not any(state.effort)))
        fallen = loop.next_state(lambda state: abs(np.array(state.position) - pose).max() > FALL)
    assert stamp_of(fallen) - start < SECOND
    # Zeros came until one was heard, nothing afterwards, though joint states did.
    zeros = [list(command.data) == [0.0, 0.0] for command in commands]
    last = zeros[zeros.index(True):]
    assert all(last) and len(last) <= LET_GO / LET_GO_EVERY


def test_a_push_moves_the_compensated_arm_the_way_it_pushes(loop: Loop) -> None:
    """Held by nothing but +g, the arm gives way to what acts on it beside gravity."""
    pose = loop.poses[0]
    force = np.array([1.0, 0.0, 2.0])  # [N], in the axes of tool0
    turned = loop.model.frame_rotation(pose, 'tool0') @ force
    acceleration = np.linalg.solve(
        loop.model.mass_matrix(pose), loop.model.frame_jacobian(pose, 'tool0')[:3].T @ turned)
    joint = int(np.argmax(abs(acceleration)))
    loop.place(pose)
    loop.compensate()
    message = WrenchStamped()
    message.header.frame_id = 'tool0'
    vector = message.wrench.force
    vector.x, vector.y, vector.z = force
    push = loop.simulator.publisher(WrenchStamped, '~/external_wrench')

    def moved() -> list[JointState]:
        return [state for state in loop.states
                if abs(state.position[joint] - pose[joint]) > 0.05]

    loop.next_state()
    pushed = loop.probe.ask(push, message, moved)[0]  # best effort may drop it
    assert np.sign(pushed.position[joint] - pose[joint]) == np.sign(acceleration[joint])


def test_a_pushed_arm_does_not_run_away_from_its_own_inverse_dynamics(
        loops: Mapping[str, Loop]) -> None:
    """With torques of C v + g it coasts: its joints keep the speed that a push gave them.

    A push F for a time T gives at most T max|M^-1 J'F|. A tick of the simulator makes it up to
    0.1 s longer, and commands that a busy machine sends late do not quite cancel C v + g: four
    times as much leaves room for both. Where the estimated acceleration is fed back, that of the
    push stays, multiplied by T and the filter's 2 pi 10 / s: after a second speeds are 60 times as
    large.
    """
    loop = loops['two_link']
    force, duration, watched = 2.0, 0.2, 1.0  # [N], [s], [s]
    pose, model = np.array([1.5, -1.0]), loop.model  # far from stops
    poses = np.random.default_rng(SEED).uniform(*loop.stops, (500, 2))
    fastest = duration * force * max(
        abs(np.linalg.solve(model.mass_matrix(q), model.frame_rotation(q, 'tool0')[:, 2]
                            @ model.frame_jacobian(q, 'tool0')[:3])).max() for q in poses)
    loop.place(pose)
    message = WrenchStamped()
    message.header.frame_id = 'tool0'
    message.wrench.force.z = force
    push = loop.simulator.publisher(WrenchStamped, '~/external_wrench')
    loop.simulator.set({'external_wrench.timeout': duration})
    loop.node.set({'command.mode': 'inverse_dynamics'})
    try:
        loop.next_state(lambda state: any(state.effort))
        loop.probe.ask(push, message, lambda: max(
            map(abs, loop.states[-1].velocity)) > 0.1 * fastest)
        loop.next_state()
        loop.probe.wait_for(lambda: loop.elapsed() > watched * SECOND, what='a second of motion')
    finally:
        loop.node.set({'command.mode': 'off'})
        loop.simulator.set({'external_wrench.timeout': 0.5})
    speeds = [abs(np.array(state.velocity)).max() for state in loop.states]
    assert max(speeds) < 4.0 * fastest


def test_inverse_dynamics_finds_the_torques_that_move_the_arm(loop: Loop) -> None:
    """From joint states alone, as they come from a moving arm, back to the effort that acts.

    Without a filter, the acceleration of the node is the mean of the true one since the joint
    state before, a time h ago. It differs from the one now by at most what that has changed
    meanwhile, and by (r h)^2 / 12 of it where it is not monotone; these arms have rates r of
    about sqrt(|dg/dq| / M) = 5/s.
    """
    model, (lower, upper) = loop.model, loop.stops
    pose = max(loop.poses, key=lambda q: min(*(q - lower), *(upper - q)))  # far from stops
    torques = 0.98 * model.gravity(pose)
    loop.place(pose)
    loop.node.set({'acceleration.cutoff': 1e6})
    try:
        with loop.node.listening(JointState, '~/inverse_dynamics') as answers:
            start = stamp_of(loop.drive(torques))
            loop.next_state(lambda state: abs(np.array(state.position) - pose).max() > FALL)
    finally:
        loop.drive(np.zeros(2))
        loop.node.set({'acceleration.cutoff': 10.0})
    checked = 0
    for before, now in pairwise(answer for answer in answers if stamp_of(answer) > start):
        h = (stamp_of(now) - stamp_of(before)) / SECOND
        if h > 0.1:
            continue  # the machine slept: the simulator does not move an arm further than that
        a_before, a_now = (model.forward_dynamics(state.position, state.velocity, torques)
                           for state in (before, now))
        tolerance = abs(model.mass_matrix(now.position)) @ (
            abs(a_now - a_before) + (5.0 * h)**2 / 12.0 * abs(a_now))
        np.testing.assert_array_less(
            abs(now.effort - torques), tolerance + 1e-9, err_msg=f'h = {h}')
        checked += 1
    assert checked > 3


def test_namespaces_keep_two_robots_apart(loops: Mapping[str, Loop]) -> None:
    """But for /diagnostics and what ROS itself shares, no topic is used by both."""
    shared = {'/diagnostics', '/parameter_events', '/rosout'}
    for stem, loop in loops.items():
        for name in ('lagdyn', 'arm_simulator'):
            node = loop.probe.node
            used = {topic for topics in (
                node.get_publisher_names_and_types_by_node(name, f'/{stem}'),
                node.get_subscriber_names_and_types_by_node(name, f'/{stem}'))
                for topic, _ in topics}
            assert {topic for topic in used if not topic.startswith(f'/{stem}/')} <= shared
            assert f'/{stem}/effort_command' in used and f'/{stem}/joint_states' in used
        assert loop.node.diagnostics('joint states').hardware_id == stem
