# SPDX-License-Identifier: Apache-2.0
"""What robots really send, on the real graph: docs/joint_states.md, case by case.

Each case begins with a good joint state after a pause, so that derivatives start anew, and ends
with another one, whose answer says that the node has got over it. Torques are computed here by
the `lagrangian` engine; the node's come from the closed form.
"""

from __future__ import annotations

import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import load, states_within_limits, text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from rclpy.qos import (
    DurabilityPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_profile_system_default,
)
from ros_graph import (
    BEST_EFFORT,
    OK,
    RELIABLE,
    SECOND,
    WARN,
    Probe,
    Stamps,
    joint_state,
    running,
    same,
    stamp_of,
    values_of,
)
from sensor_msgs.msg import JointState

from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS
from ros_lagdyn.ros_node.outputs import TOPICS, message_type

Array = np.ndarray

ARM = 'five_bar'  # it has mimic joints
JOINTS = ('joint1', 'joint2')
MIMIC = ('joint2_level', 'joint3', 'joint1_level', 'joint4')
STEP = 20_000_000  # [ns], between joint states
DT = STEP / SECOND  # [s]
PAUSE = SECOND  # [ns], after which derivatives start anew
HOUR = 3600 * SECOND  # [ns]
QUIET = 5.0  # [s], between two warnings of one kind
FLOOD = 50  # bad messages of each kind

MODEL = load(ARM, 'lagrangian')
Q, V, _ = states_within_limits(MODEL, 3)
(Q0, Q1, Q2), (V0, V1, V2) = Q, V
ZERO = np.zeros(2)
A1 = (V1 - V0) / DT  # of the second state after a pause: the filter starts with it


class Robot:
    """Sends joint states to a node and sees what it answers."""

    def __init__(self, probe: Probe) -> None:
        """Wait until the node listens."""
        self.probe = probe
        probe.wait_for_state('active')
        self.answers = probe.subscribe(JointState, '~/inverse_dynamics')
        # Two drivers, each of which may send some of the joints.
        self.drivers = [probe.publisher(JointState, 'joint_states') for _ in range(2)]
        self.stamps = Stamps(time.time_ns() - HOUR)
        self.counted = self.counts()

    def send(self, message: JointState, driver: int = 0) -> None:
        """Send one joint state."""
        self.drivers[driver].publish(message)

    def answered(self, q: Array, v: Array, stamp: int) -> list[JointState]:
        """Send a good joint state, and return all answers up to the one to it."""
        self.send(joint_state(JOINTS, q, v, stamp=stamp))
        self.probe.wait_for(
            lambda: self.answers and stamp_of(self.answers[-1]) == stamp, what='an answer')
        answers = list(self.answers)
        self.answers.clear()
        return answers

    def counts(self) -> dict[str, int]:
        """Return the counters of refused and noted joint states."""
        values = values_of(self.probe.diagnostics('joint states'))
        self.counted = {key: int(value) for key, value in values.items()
                        if key.startswith(('refused: ', 'noted: '))}
        return self.counted


@contextmanager
def robot_of(folder: Path, parameters: Mapping[str, Any]) -> Iterator[Robot]:
    given = {'robot_description': text_of(ARM), **parameters}
    name = f'/{folder.name}'
    with running('dynamics_node', folder, given, namespace=name) as node, Probe(
            f'{name}/lagdyn', node) as probe:
        yield Robot(probe)


@pytest.fixture(scope='module')
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    """Derived velocities are not smoothed, so that one step says what they are.

    A busy machine may take longer than the default of max_age between two messages.
    """
    with robot_of(tmp_path_factory.mktemp('node'), {
            'velocity.cutoff': 1e6, 'joint_states.max_age': 10.0,
            'command.enable_at_start': True, 'command.timeout': 1000.0}) as robot:
        yield robot


@dataclass(frozen=True, kw_only=True)
class Case:
    """Joint states that follow a good one of the state Q0, V0, and what becomes of them."""

    name: str
    says: Sequence[Mapping[str, Any]]  # what is unlike a good joint state of the state Q1, V1
    answers: Sequence[tuple[Array, Array, Array]] = ()  # q, v, a
    counts: Mapping[str, int] = field(default_factory=dict)


GOOD = {'names': JOINTS, 'position': Q1, 'velocity': V1, 'effort': ()}
TAKEN = ((Q1, V1, A1),)
ANEW = ((Q1, V1, ZERO),)
DERIVED = (Q1 - Q0) / DT
BAD = {
    'no_known_joint': {'names': ('finger1', 'finger2')},
    'no_position': {'position': ()},
    'wrong_length': {'position': [1.0]},
    'repeated_name': {'names': ('joint1', 'joint1')},
    'impossible_position': {'position': [nan, 3.0]},
    'stamp_went_back': {'step': -STEP},
}
CASES = [
    Case(name='as it should be', says=[{}], answers=TAKEN),
    Case(name='another order and other joints',
         says=[{'names': ('lift', 'joint2', 'finger', 'joint1'),
                'position': [0.1, Q1[1], nan, Q1[0]], 'velocity': [0.0, V1[1], inf, V1[0]]}],
         answers=TAKEN),
    Case(name='mimic joints, whatever they say',
         says=[{'names': (*MIMIC, *JOINTS), 'position': [9.0, nan, 9.0, 9.0, *Q1],
                'velocity': [9.0] * 4 + [*V1]}],
         answers=TAKEN),
    Case(name='two publishers with one joint each',
         says=[{'names': ['joint1'], 'position': Q1[:1], 'velocity': V1[:1]},
               {'names': ['joint2'], 'position': Q1[1:], 'velocity': V1[1:], 'driver': 1}],
         answers=[([Q1[0], Q0[1]], [V1[0], V0[1]], [A1[0], 0.0]), (Q1, V1, A1)]),
    Case(name='no velocities', says=[{'velocity': ()}],
         answers=[(Q1, DERIVED, (DERIVED - V0) / DT)]),
    Case(name='one velocity is NaN', says=[{'velocity': [nan, V1[1]]}],
         answers=[(Q1, [DERIVED[0], V1[1]], [(DERIVED[0] - V0[0]) / DT, A1[1]])]),
    Case(name='NaN effort', says=[{'effort': [nan, nan]}], answers=TAKEN),
    *[Case(name=reason, says=[bad], counts={f'refused: {reason}': 1})
      for reason, bad in BAD.items()],
    Case(name='infinite position', says=[{'position': [0.0, -inf]}],
         counts={'refused: impossible_position': 1}),
    Case(name='one velocity for two joints', says=[{'velocity': [0.0]}],
         counts={'refused: wrong_length': 1}),
    Case(name='three efforts for two joints', says=[{'effort': [0.0] * 3}],
         counts={'refused: wrong_length': 1}),
    Case(name='repeated stamp', says=[{'step': 0}], answers=ANEW,
         counts={'noted: repeated_stamp': 1}),
    Case(name='a clock set back by five minutes',
         says=[{'step': -300 * SECOND},
               {'step': -300 * SECOND + STEP, 'position': Q2, 'velocity': V2}],
         answers=[*ANEW, (Q2, V2, (V2 - V1) / DT)], counts={'noted: clock_reset': 1}),
    Case(name='back for the fifth time', says=[{'step': -STEP}] * 5, answers=ANEW,
         counts={'refused: stamp_went_back': 4, 'noted: clock_reset': 1}),
]


@pytest.mark.parametrize('case', CASES, ids=lambda case: case.name)
def test_what_robots_send_is_answered_rightly_or_refused_and_counted(
        robot: Robot, case: Case) -> None:
    """Every other counter stays as it is, and the next good joint state is answered."""
    before = robot.counted
    start = robot.stamps(PAUSE)
    robot.answered(Q0, V0, start)
    for number, unlike in enumerate(case.says):
        if number == 3:
            robot.counts()  # by then the first are taken: the node's queue holds 5
        message = {**GOOD, 'step': STEP, 'driver': 0, **unlike}
        stamp, driver = start + message.pop('step'), message.pop('driver')
        robot.send(joint_state(**message, stamp=stamp), driver)
    *answers, last = robot.answered(Q2, V2, robot.stamps(PAUSE))
    assert len(answers) == len(case.answers)
    for answer, (q, v, a) in zip(answers, case.answers, strict=True):
        assert tuple(answer.name) == JOINTS
        np.testing.assert_array_equal(answer.position, q)
        same(answer.velocity, v)
        same(answer.effort, MODEL.inverse_dynamics(q, v, a))
    same(last.effort, MODEL.inverse_dynamics(Q2, V2, ZERO))
    after = robot.counts()
    assert {key: after[key] - before[key] for key in after if after[key] != before[key]} == (
        case.counts)


def test_a_stamp_of_zero_is_answered_with_the_time_of_receipt(robot: Robot) -> None:
    """By the clock of the node, which is this machine's."""
    robot.answered(Q0, V0, robot.stamps(PAUSE))
    start = time.time_ns()
    robot.send(joint_state(JOINTS, Q1, V1))
    robot.probe.wait_for(lambda: robot.answers, what='an answer')
    (answer,) = robot.answers
    robot.answers.clear()
    assert start <= stamp_of(answer) <= time.time_ns()
    same(answer.effort, MODEL.inverse_dynamics(Q1, V1, ZERO))  # an hour later: anew
    robot.answered(Q0, V0, robot.stamps(PAUSE))


def test_a_joint_that_is_too_old_leaves_the_state_incomplete(robot: Robot) -> None:
    """A driver that died: what the other one sends is taken, but not answered."""
    before = robot.counts()
    robot.probe.set({'joint_states.max_age': 0.02})
    try:
        robot.answered(Q0, V0, robot.stamps(PAUSE))
        robot.probe.sees_nothing(robot.answers, 0.05)
        robot.send(joint_state(JOINTS[:1], Q1[:1], V1[:1], stamp=robot.stamps(STEP)))
        (answer,) = robot.answered(Q2, V2, robot.stamps(STEP))
        # The first joint's velocity has been seen one step ago, the second's two steps ago.
        a = (V2 - [V1[0], V0[1]]) / [DT, 2 * DT]
        a[0] += (A1[0] - a[0]) * np.exp(-2.0 * np.pi * 10.0 * DT)  # low-passed at 10 Hz
        same(answer.effort, MODEL.inverse_dynamics(Q2, V2, a))
    finally:
        robot.probe.set({'joint_states.max_age': 10.0})
    assert robot.counts() == before | {
        'refused: incomplete': before['refused: incomplete'] + 1}


def test_joint_states_of_another_robot_are_told_with_both_lists(robot: Robot) -> None:
    """A warning that says what is on the topic and what the arm has; then all is well again."""
    robot.probe.set({'joint_states.max_age': 0.02})

    def names_both(status: Any) -> bool:
        # Diagnostics speak of the last second.
        robot.send(joint_state(['finger1', 'finger2'], [0.0, 0.0], stamp=robot.stamps()))
        return 'they name finger1, finger2; the arm has joint1, joint2' in status.message

    try:
        status = robot.probe.diagnostics('joint states', names_both)
    finally:
        robot.probe.set({'joint_states.max_age': 10.0})
    assert status.level == WARN and '/joint_states' in status.message
    robot.answered(Q0, V0, robot.stamps(PAUSE))
    robot.probe.diagnostics('joint states', lambda status: status.level == OK)


def test_fifty_bad_messages_of_each_kind_make_one_warning_of_each_kind(robot: Robot) -> None:
    """All are counted, and the log has at most one warning of a kind every 5 s."""
    before = robot.counts()
    for _ in range(FLOOD):
        for bad in BAD.values():
            (answer,) = robot.answered(Q0, V0, robot.stamps(PAUSE))
            same(answer.effort, MODEL.inverse_dynamics(Q0, V0, ZERO))
            message = {**GOOD, 'step': STEP, **bad}
            robot.send(joint_state(stamp=robot.stamps(0) + message.pop('step'), **message))
    robot.answered(Q0, V0, robot.stamps(PAUSE))
    after = robot.counts()
    for reason in BAD:
        assert after[f'refused: {reason}'] - before[f'refused: {reason}'] == FLOOD, reason
    (node,) = robot.probe.processes
    warned = defaultdict(list)  # time [s], by kind
    for moment, kind in re.findall(
            r'\[WARN\] \[([0-9.]+)\] \[.*lagdyn\]: joint state: (\w+)', node.output()):
        warned[kind].append(float(moment))
    assert set(BAD) <= set(warned)
    for kind, moments in warned.items():
        # A busy machine may write the first of two later than it was decided.
        assert all(after - before > 0.8 * QUIET for before, after in pairwise(moments)), kind


# -- quality of service ------------------------------------------------------------------------


@pytest.mark.parametrize(('reliability', 'durability'), product(
    (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT),
    (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL)))
def test_joint_states_of_every_quality_of_service_are_heard(
        robot: Robot, reliability: ReliabilityPolicy, durability: DurabilityPolicy) -> None:
    """Drivers publish with the one or the other."""
    publisher = robot.probe.publisher(JointState, 'joint_states', QoSProfile(
        depth=1, reliability=reliability, durability=durability))
    message = joint_state(JOINTS, Q1, V1, stamp=robot.stamps(PAUSE))
    robot.probe.ask(publisher, message, lambda: robot.answers)
    same(robot.answers[0].effort, MODEL.inverse_dynamics(Q1, V1, ZERO))
    robot.answers.clear()
    robot.probe.node.destroy_publisher(publisher)


@pytest.mark.parametrize(
    'qos', [RELIABLE, BEST_EFFORT, QoSProfile(depth=1), qos_profile_system_default],
    ids=['reliable', 'best effort', 'depth 1', 'default'])
def test_every_output_reaches_subscribers_of_every_quality_of_service(
        robot: Robot, qos: QoSProfile) -> None:
    """Controllers subscribe with the system's default, displays with best effort."""
    robot.probe.set({'command.mode': 'gravity', 'markers.enabled': True, 'markers.rate': 1000.0})
    try:
        inboxes = [robot.probe.subscribe(message_type(kind), topic, qos)
                   for topic, kind in TOPICS.items()]
        robot.probe.ask(
            robot.drivers[0], joint_state(JOINTS, Q1, V1, ZERO, stamp=robot.stamps(PAUSE)),
            lambda: all(inboxes))
    finally:
        robot.probe.set({'command.mode': 'off', 'markers.enabled': False, 'markers.rate': 20.0})
    robot.answers.clear()


def test_a_node_that_was_stopped_goes_on_with_the_newest_joint_states(robot: Robot) -> None:
    """What it could not take meanwhile is not made up for, but for the end of the queue.

    The queue holds the newest 5. Once the process goes on, its middleware delivers all 50 in about
    a millisecond, in which the node may answer a few of the first ones before they are dropped.
    """
    (node,) = robot.probe.processes
    robot.answered(Q0, V0, robot.stamps(PAUSE))
    node.freeze()
    stamps = [robot.stamps(STEP) for _ in range(FLOOD)]
    for stamp in stamps:
        robot.send(joint_state(JOINTS, Q1, V1, stamp=stamp))
    node.send(signal.SIGCONT)
    robot.probe.wait_for(
        lambda: robot.answers and stamp_of(robot.answers[-1]) == stamps[-1], what='the newest')
    answered = [stamp_of(answer) for answer in robot.answers]
    robot.answers.clear()
    assert answered == sorted(set(answered)) and set(answered) <= set(stamps)
    assert len(answered) < FLOOD // 2
    # Nothing is left: the next one is answered by itself.
    (_,) = robot.answered(Q2, V2, robot.stamps(PAUSE))


# -- parameters while running ------------------------------------------------------------------


# A value that can be set while the node runs, and one that is refused.
OTHER_AND_REFUSED = {
    'robot_description': (text_of('two_link'), '<robot name="nonsense"><link name="base"'),
    'robot_description_timeout': (1.0, -1.0),
    'engine': ('lagrangian', 'abacus'),
    'check_engine': ('lagrangian', 'closed_form'),  # the engine itself
    'cross_check.every': (3, -1),
    'cross_check.warn_tolerance': (1e-8, 1e-3),  # above the other one
    'cross_check.error_tolerance': (1e-5, 2.0),
    'cross_check.patience': (0.2, -1.0),
    'gravity': ([0.0, 0.0, -1.62], [0.0, 9.81]),
    'gravity_frame': ('base_link', 'link1'),  # which moves
    'payload.mass': (0.5, nan),
    'payload.com': ([0.1, 0.0, 0.0], [0.1, inf, 0.0]),
    'payload.frame': ('link1', 'moon'),
    'friction.enabled': (True, 'yes'),
    'friction.viscous': ([0.1, 0.2], [0.1]),
    'friction.coulomb': ([0.1, 0.2], [0.1, -0.2]),
    'external_wrench.enabled': (True, 1),
    'external_wrench.timeout': (1.0, -1.0),
    'acceleration.source': ('zero', 'guess'),
    'acceleration.cutoff': (5.0, 0.0),
    'velocity.cutoff': (5.0, nan),
    'reference.timeout': (1.0, -1.0),
    'joint_states.max_age': (1.0, 0.0),
    'residual.gravity_subtracted': (True, 0.5),
    'actuation.matrix': ([2.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]),  # singular
    'actuation.names': (['left', 'right'], ['left', 'left']),
    'command.mode': ('gravity', 'sometimes'),
    'command.enable_at_start': (True, 'perhaps'),
    'command.joints': (['joint2', 'joint1'], ['joint1', 'joint1']),
    'command.max_effort': ([20.0, 10.0], [20.0]),
    'command.max_slew': ([200.0, 100.0], [200.0, 0.0]),
    'command.ramp_time': (1.0, -1.0),
    'command.timeout': (0.1, 0.0),
    'command.policy': ('hold_gravity', 'hope'),
    'command.fade_time': (0.2, inf),
    'command.hold_time': (0.2, -1.0),
    'command.velocity_factor': (2.0, nan),
    'markers.enabled': (True, 1),
    'markers.rate': (5.0, 0.0),
    'tool_frame': ('link1', 'moon'),
    'frame_prefix': ('left/', 3),
}


def test_every_parameter_is_among_those_that_are_set_while_running() -> None:
    """Whoever adds one says here what it may be."""
    assert set(OTHER_AND_REFUSED) == {
        spec.name for spec in NODE_PARAMETERS if not spec.read_only}


@pytest.fixture(scope='module')
def settable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    """With a payload and motors, for what depends on them."""
    with robot_of(tmp_path_factory.mktemp('settable'), {
            'payload.mass': 1.0, 'actuation.matrix': [1.0, 0.0, 0.0, 1.0]}) as robot:
        yield robot


@pytest.mark.parametrize('name', OTHER_AND_REFUSED)
def test_a_parameter_is_set_while_the_node_runs_and_a_bad_value_refused(
        settable: Robot, name: str) -> None:
    """The node answers all the time; back at the old value, as it did before."""
    probe, (other, bad) = settable.probe, OTHER_AND_REFUSED[name]

    def answer() -> JointState:
        return settable.answered(Q1, V1, settable.stamps(PAUSE))[-1]

    before = answer()
    (old,) = probe.get(name)
    assert old != other
    probe.set({name: other})
    try:
        assert probe.get(name) == [other]
        during = answer()
        result = probe.try_set({name: bad})
        assert not result.successful and len(result.reason) > 10
        assert probe.get(name) == [other]
        same(answer().effort, during.effort)
    finally:
        probe.set({name: old})
    assert probe.get(name) == [old]
    same(answer().effort, before.effort)


def test_autostart_cannot_be_set_while_the_node_runs(settable: Robot) -> None:
    """It is over by then, and the node says so."""
    result = settable.probe.try_set({'autostart': False})
    assert not result.successful and 'read-only' in result.reason
    assert settable.probe.get('autostart') == [True]
