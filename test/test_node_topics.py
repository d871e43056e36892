# SPDX-License-Identifier: Apache-2.0
"""Every topic of dynamics_node, compared with what another engine computes in this process.

The node runs in a process of its own, one per arm. It answers one joint state at a time. What it
must say is computed here by the `lagrangian` engine, while its own numbers come from the closed
forms, or from Pinocchio where no closed form fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from random_arms import random_tree
from shipped import SEED, states_within_limits, text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from ros_graph import (
    BEST_EFFORT,
    ERROR,
    OK,
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
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from visualization_msgs.msg import Marker, MarkerArray

from ros_lagdyn.closed_form.two_link_remote import REMOTE_DRIVE
from ros_lagdyn.dynamics import EARTH_GRAVITY, Dynamics, load_dynamics
from ros_lagdyn.errors import UnrecognisedMechanismError
from ros_lagdyn.filtered_derivative import FilteredDerivative

Array = np.ndarray

RANDOM = 'random_tree'
ARMS = ('two_link', 'five_bar', 'spatial_3r', 'two_link_remote', RANDOM)
WITH_TRANSMISSION = ('five_bar', 'two_link_remote')  # by their mimic joints
TERMS = ('mass_matrix', 'coriolis', 'gravity', 'torque')
TOPICS: dict[str, Any] = {
    'inverse_dynamics': JointState,
    'gravity_compensation': JointState,
    'coriolis': JointState,
    'mass_matrix': Float64MultiArray,
    'actuator_torques': JointState,
    'cross_check': DiagnosticArray,
    'residual': JointState,
    'command': Float64MultiArray,
    'markers': MarkerArray,
}
ALWAYS = ('inverse_dynamics', 'gravity_compensation', 'coriolis', 'mass_matrix')

STEP = 20_000_000  # [ns], between joint states
PAUSE = 1_000_000_000  # [ns], after which derivatives start anew
# One joint state at a time, of an arm that is now here, now there: no guard likes that. Here its
# limits are so wide that only the first command, which is zero, differs from the torque.
GUARD_ASIDE = {'command.enable_at_start': True, 'command.ramp_time': 0.0,
               'command.timeout': 1000.0, 'command.velocity_factor': 1e6}
QUIET = 0.3  # [s], how long to look out for what must not come; answers take 1 ms


def text(arm: str) -> str:
    """Return the URDF of one of ARMS."""
    if arm != RANDOM:
        return text_of(arm)
    return random_tree(np.random.default_rng(SEED), 5, mimic=False)


def stamp_in(message: Any) -> int | None:
    """Return the stamp of a message [ns], or None where it has no header."""
    if isinstance(message, MarkerArray):
        return stamp_of(message.markers[0])
    return stamp_of(message) if hasattr(message, 'header') else None


class Rig:
    """One arm: its node in a process, what it says, and the engine that knows better."""

    def __init__(self, arm: str, probe: Probe) -> None:
        """Subscribe to every topic and wait until the node listens."""
        self.arm = arm
        self.probe = probe
        self.model: Dynamics = load_dynamics(text(arm), 'lagrangian')
        self.joints = self.model.joints
        self.q, self.v, self.a = states_within_limits(self.model, 20)
        # There is nobody to match on the topic of markers until they are enabled.
        self.inbox = {topic: probe.subscribe(kind, f'~/{topic}', matched=topic != 'markers')
                      for topic, kind in TOPICS.items()}
        self.joint_states = probe.publisher(JointState, 'joint_states')
        self.stamps = Stamps()
        self._before: dict[str, Any] = {}

    def set(self, **parameters: Any) -> None:
        """Set parameters; a dot in a name is written __. restore() undoes it."""
        named = {name.replace('__', '.'): value for name, value in parameters.items()}
        new = [name for name in named if name not in self._before]
        if new:
            self._before |= dict(zip(new, self.probe.get(*new), strict=True))
        self.probe.set(named)

    def restore(self) -> None:
        """Give every parameter the value that it had, and let derivatives start anew."""
        if self._before:
            self.probe.set(self._before)
        self._before = {}
        self.stamps(PAUSE)

    def enable(self, mode: str, joints: Sequence[str] = ()) -> None:
        """Let torques of some joints, by default all, be commanded as they are."""
        count = len(joints or self.joints)
        self.set(command__mode=mode, command__joints=list(joints),
                 command__max_effort=[1e9] * count, command__max_slew=[1e12] * count)
        # Other joints are commanded only after somebody has switched them on.
        assert self.probe.call(SetBool, '~/enable', SetBool.Request(data=True)).success
        # Zeros until one is heard, and the first of the ramp.
        self.probe.wait_for(lambda: any(self.answer(0, 'command')['command'].data),
                            what='a torque')

    def send(self, state: JointState, expected: Sequence[str] = ()) -> dict[str, Any]:
        """Send one joint state and return the answers by topic, once all expected are here."""
        stamp = stamp_of(state)
        for inbox in self.inbox.values():
            inbox.clear()

        def of(topic: str) -> list[Any]:
            return [message for message in self.inbox[topic] if stamp_in(message) in (stamp, None)]

        self.probe.ask(self.joint_states, state, lambda: all(map(of, (*ALWAYS, *expected))))
        return {topic: of(topic)[-1] for topic in TOPICS if of(topic)}

    def answer(
        self,
        index: int,
        *expected: str,
        effort: Sequence[float] = (),
        q: Sequence[float] | None = None,
        v: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Send one of the random states, or the one given, and return the answers by topic."""
        state = joint_state(
            names or self.joints, self.q[index] if q is None else q,
            self.v[index] if v is None else v, effort, stamp=self.stamps(STEP))
        answers = self.send(state, expected)
        for topic, message in answers.items():
            assert stamp_in(message) in (stamp_of(state), None), topic
        return answers

    def never(self, *topics: str) -> None:
        """Assert that nothing came, nor comes, on some topics."""
        for topic in topics:
            self.probe.sees_nothing(self.inbox[topic], QUIET)


@pytest.fixture(scope='module')
def rigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Rig]]:
    """Return what starts the node of an arm, or finds it running."""
    with ExitStack() as stack:
        started: dict[str, Rig] = {}

        def rig(arm: str) -> Rig:
            if arm not in started:
                process = stack.enter_context(running(
                    'dynamics_node', tmp_path_factory.mktemp(arm),
                    {'robot_description': text(arm), **GUARD_ASIDE}, namespace=f'/{arm}'))
                probe = stack.enter_context(Probe(f'/{arm}/lagdyn', process))
                probe.wait_for_state('active')
                started[arm] = Rig(arm, probe)
            return started[arm]

        yield rig


@pytest.fixture(params=ARMS)
def rig(request: pytest.FixtureRequest, rigs: Callable[[str], Rig]) -> Iterator[Rig]:
    """Return the rig of each arm, with the default parameters."""
    found = rigs(request.param)
    yield found
    found.restore()


@pytest.fixture
def two_link(rigs: Callable[[str], Rig]) -> Iterator[Rig]:
    """Return the rig of two_link, with the default parameters."""
    found = rigs('two_link')
    yield found
    found.restore()


@pytest.fixture
def spatial(rigs: Callable[[str], Rig]) -> Iterator[Rig]:
    """Return the rig of spatial_3r, with the default parameters."""
    found = rigs('spatial_3r')
    yield found
    found.restore()


def root_of(urdf: str) -> str:
    """Return the link that is no joint's child."""
    from xml.etree import ElementTree

    robot = ElementTree.fromstring(urdf)
    children = {joint.find('child').get('link') for joint in robot.findall('joint')}
    (root,) = [link.get('name') for link in robot.findall('link')
               if link.get('name') not in children]
    return str(root)


def add_to_robot(urdf: str, elements: str) -> str:
    """Return a URDF with more elements at its end."""
    head, end, tail = urdf.rpartition('</robot>')
    return head + elements + end + tail


def carrying(urdf: str, link: str, mass: float, com: Sequence[float]) -> str:
    """Return a URDF in which a link carries a point mass, written by hand."""
    place = ' '.join(map(repr, com))
    return add_to_robot(urdf, f"""
      <link name="load">
        <inertial>
          <origin xyz="0 0 0"/>
          <mass value="{mass}"/>
          <inertia ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"/>
        </inertial>
      </link>
      <joint name="load_fixed" type="fixed">
        <parent link="{link}"/><child link="load"/><origin xyz="{place}"/>
      </joint>""")


def test_random_tree_is_recognised_by_no_closed_form() -> None:
    """What is tested as such really is an arm without a formula, with four joints or more."""
    with pytest.raises(UnrecognisedMechanismError):
        load_dynamics(text(RANDOM), 'closed_form')
    assert len(load_dynamics(text(RANDOM), 'lagrangian').joints) >= 4


def test_every_topic_is_what_the_lagrangian_engine_says(rig: Rig) -> None:
    """Names in the arm's order, the joint state's stamp, the root link, and every number."""
    rng = np.random.default_rng(SEED)
    model, n = rig.model, len(rig.joints)
    acceleration = FilteredDerivative(n, 10.0)
    with_motors = ('actuator_torques',) if rig.arm in WITH_TRANSMISSION else ()
    for index in range(8):
        q, v, measured = rig.q[index], rig.v[index], rng.normal(size=n)
        order = rng.permutation(n)
        found = rig.answer(
            index, 'residual', 'cross_check', *with_motors, q=q[order], v=v[order],
            effort=measured[order], names=[rig.joints[joint] for joint in order])
        a = acceleration.update(v.tolist(), stamp_of(found['inverse_dynamics']))
        M, C, g = model.mass_matrix(q), model.coriolis_matrix(q, v), model.gravity(q)
        torque = M @ a + C @ v + g

        for topic, message in found.items():
            if TOPICS[topic] is JointState:
                assert tuple(message.name) == rig.joints, topic
                assert message.header.frame_id == root_of(text(rig.arm)), topic
        assert list(found['inverse_dynamics'].position) == q.tolist()
        assert list(found['inverse_dynamics'].velocity) == v.tolist()
        same(found['inverse_dynamics'].effort, torque)
        same(found['gravity_compensation'].effort, g)
        same(found['coriolis'].effort, C @ v)
        same(found['residual'].effort, measured - torque)
        if with_motors:
            same(found['actuator_torques'].effort, torque)
        for topic in ('gravity_compensation', 'coriolis', 'residual'):
            assert not found[topic].position and not found[topic].velocity

        rows, columns = found['mass_matrix'].layout.dim
        assert (rows.size, rows.stride, columns.size, columns.stride) == (n, n * n, n, n)
        assert found['mass_matrix'].layout.data_offset == 0
        names = ', '.join(rig.joints)
        assert (rows.label, columns.label) == (f'rows: {names}', f'columns: {names}')
        same(np.reshape(found['mass_matrix'].data, (n, n)), M)

        (status,) = found['cross_check'].status
        values = values_of(status)
        assert status.level == OK
        for term in (*TERMS, 'worst'):
            assert 0.0 <= float(values[term]) < 1e-12, term
        assert float(values['worst']) == max(float(values[term]) for term in TERMS)
        assert (values['engine'], values['check_engine']) == (
            ('pinocchio', 'lagrangian') if rig.arm == RANDOM else ('closed_form', 'pinocchio'))
    rig.never('command', 'markers', *(() if with_motors else ('actuator_torques',)))


def test_mass_matrix_is_by_rows() -> None:
    """Symmetric matrices hide a transposed layout; the layout itself says rows first."""
    # The numbers of a symmetric matrix are the same by rows and by columns, so what can be
    # wrong is the layout alone: see the strides above. Here: M really is symmetric.
    model = load_dynamics(text('two_link'), 'lagrangian')
    M = model.mass_matrix([0.3, 0.5])
    np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize('warn, error, level', [(0.0, 1.0, WARN), (0.0, 1e-30, ERROR)])
def test_cross_check_tolerances_decide_the_level(
        spatial: Rig, warn: float, error: float, level: bytes) -> None:
    """Rounding errors are above a tolerance of nothing."""
    spatial.set(cross_check__warn_tolerance=warn, cross_check__error_tolerance=error)
    levels = []
    for index in range(5):
        (status,) = spatial.answer(index, 'cross_check')['cross_check'].status
        values = values_of(status)
        assert float(values['warn_tolerance']) == warn
        assert float(values['error_tolerance']) == error
        levels.append(status.level)
        assert status.level == (level if float(values['worst']) > 0.0 else OK)
    assert level in levels
    spatial.restore()
    assert spatial.answer(0, 'cross_check')['cross_check'].status[0].level == OK


def test_cross_check_every_third(two_link: Rig) -> None:
    """One in three joint states is checked; with 0 none is."""
    two_link.set(cross_check__every=3)
    checked = ['cross_check' in two_link.answer(index) for index in range(3)]
    # The check comes after the other topics: wait for those that are on their way.
    stamps = []
    for index in range(9):
        found = two_link.answer(index)
        if not two_link.inbox['cross_check']:
            two_link.probe._until(lambda: two_link.inbox['cross_check'], 0.1)
        stamp = stamp_of(found['inverse_dynamics'])
        stamps.append(any(stamp_of(m) == stamp for m in two_link.inbox['cross_check']))
    assert sum(stamps) == 3, (checked, stamps)
    first = stamps.index(True)
    assert stamps == [(index - first) % 3 == 0 for index in range(9)]
    two_link.set(cross_check__every=0)
    for index in range(3):
        two_link.answer(index)
    two_link.never('cross_check')


def test_residual_of_drivers_that_subtract_gravity(two_link: Rig) -> None:
    """Their efforts lack gravity, so the model's are taken without it."""
    two_link.set(acceleration__source='zero')
    measured = np.array([1.5, -2.5])
    for index in range(3):
        q, v = two_link.q[index], two_link.v[index]
        torque = two_link.model.coriolis_matrix(q, v) @ v
        two_link.set(residual__gravity_subtracted=True)
        found = two_link.answer(index, 'residual', effort=measured)
        same(found['residual'].effort, measured - torque)
        same(found['inverse_dynamics'].effort, torque + two_link.model.gravity(q))
        two_link.set(residual__gravity_subtracted=False)
        found = two_link.answer(index, 'residual', effort=measured)
        same(found['residual'].effort, measured - torque - two_link.model.gravity(q))


@pytest.mark.parametrize('effort', [(), (1.0, np.nan)], ids=['none', 'one of two'])
def test_no_residual_without_efforts(two_link: Rig, effort: Sequence[float]) -> None:
    """Without all efforts there is nothing to compare; everything else is answered."""
    two_link.answer(0, 'residual', effort=[1.0, 2.0])
    two_link.answer(1, 'cross_check', effort=effort)
    two_link.never('residual')


def test_motors_of_a_remote_drive(two_link: Rig) -> None:
    """B = J' of the remote drive: the second motor turns the second link against the base."""
    two_link.set(acceleration__source='zero')
    two_link.set(actuation__matrix=[1.0, 1.0, 0.0, 1.0], actuation__names=['base', 'remote'])
    np.testing.assert_array_equal(REMOTE_DRIVE.J.T, [[1.0, 1.0], [0.0, 1.0]])
    for index in range(4):
        q, v = two_link.q[index], two_link.v[index]
        torque = two_link.model.inverse_dynamics(q, v, np.zeros(2))
        found = two_link.answer(index, 'actuator_torques')
        assert list(found['actuator_torques'].name) == ['base', 'remote']
        assert found['actuator_torques'].header.frame_id == 'base_link'
        same(found['actuator_torques'].effort, REMOTE_DRIVE.actuator_torques(torque))
        same(found['actuator_torques'].effort, [torque[0] - torque[1], torque[1]])
        same(found['inverse_dynamics'].effort, torque)
    two_link.set(actuation__names=[])
    found = two_link.answer(0, 'actuator_torques')
    assert list(found['actuator_torques'].name) == ['motor1', 'motor2']
    two_link.set(actuation__matrix=[])
    two_link.answer(0)
    two_link.never('actuator_torques')


def test_actuation_that_cannot_be_is_refused(two_link: Rig) -> None:
    """A matrix of the wrong size or rank, or names that do not fit: the old one stays."""
    two_link.set(actuation__matrix=[2.0, 0.0, 0.0, 1.0])
    for refused in (
        {'actuation.matrix': [1.0, 2.0, 3.0]},
        {'actuation.matrix': [1.0, 1.0, 1.0, 1.0]},
        {'actuation.names': ['one']},
    ):
        result = two_link.probe.try_set(refused)
        assert not result.successful
        assert 'actuation' in result.reason
    found = two_link.answer(0, 'actuator_torques')
    torque = np.array(found['inverse_dynamics'].effort)
    same(found['actuator_torques'].effort, torque / [2.0, 1.0])


def test_command_in_another_order(spatial: Rig) -> None:
    """Gravity or inverse dynamics, in the order of command.joints; zeros when off."""
    spatial.set(acceleration__source='zero')
    model, joints, order = spatial.model, ['joint3', 'joint1', 'joint2'], [2, 0, 1]
    for index in range(3):
        q, v = spatial.q[index], spatial.v[index]
        spatial.enable('gravity', joints)
        command = spatial.answer(index, 'command')['command']
        same(command.data, model.gravity(q)[order])
        (dimension,) = command.layout.dim
        assert dimension.label == 'joints: joint3, joint1, joint2'
        assert (dimension.size, dimension.stride) == (3, 3)
        spatial.enable('inverse_dynamics', joints)
        command = spatial.answer(index, 'command')['command']
        same(command.data, model.inverse_dynamics(q, v, np.zeros(3))[order])
    spatial.inbox['command'].clear()
    spatial.set(command__mode='off')
    spatial.probe.wait_for(lambda: spatial.inbox['command'], what='the last command')
    assert not any(any(command.data) for command in spatial.inbox['command'])
    spatial.answer(0, 'cross_check')
    spatial.never('command')


def test_a_command_of_inverse_dynamics_does_not_feed_the_estimate_back(spatial: Rig) -> None:
    """It is the torque of acceleration 0, while ~/inverse_dynamics has the estimated one."""
    spatial.enable('inverse_dynamics')
    spatial.stamps(PAUSE)
    model = spatial.model
    derivative = FilteredDerivative(3, 10.0)
    for index in range(4):
        q, v = spatial.q[index], spatial.v[index]
        found = spatial.answer(index, 'command')
        a = np.array(derivative.update(v.tolist(), stamp_of(found['inverse_dynamics'])))
        same(found['inverse_dynamics'].effort, model.inverse_dynamics(q, v, a))
        same(found['command'].data, model.inverse_dynamics(q, v, np.zeros(3)))
    assert abs(a).max() > 1.0  # [rad/s^2]


def test_command_of_some_joints(spatial: Rig) -> None:
    """A controller may have some of the joints only; an unknown one is refused."""
    spatial.enable('gravity', ['joint3'])
    same(spatial.answer(2, 'command')['command'].data, spatial.model.gravity(spatial.q[2])[2:])
    result = spatial.probe.try_set({'command.joints': ['joint9']})
    assert not result.successful
    assert 'joint9' in result.reason and 'joint1' in result.reason
    same(spatial.answer(3, 'command')['command'].data, spatial.model.gravity(spatial.q[3])[2:])


def test_command_of_motors(two_link: Rig) -> None:
    """command.joints may name the motors of a transmission instead."""
    two_link.set(actuation__matrix=[1.0, 1.0, 0.0, 1.0], actuation__names=['base', 'remote'])
    two_link.enable('gravity', ['remote', 'base'])
    for index in range(3):
        g = two_link.model.gravity(two_link.q[index])
        found = two_link.answer(index, 'command', 'actuator_torques')
        same(found['command'].data, [g[1], g[0] - g[1]])


def test_what_command_joints_cannot_be_is_refused_with_the_culprit(two_link: Rig) -> None:
    """The joint that there is not is named, not one that there is; nor can both be mixed."""
    two_link.set(actuation__matrix=[1.0, 1.0, 0.0, 1.0], actuation__names=['base', 'remote'])
    for joints, said in (
        (['joint1', 'joint9'], 'unknown joint in command.joints "joint9", known are: joint1, '
                               'joint2, base, remote'),
        (['remote', 'joint9'], 'unknown joint in command.joints "joint9", known are: joint1, '
                               'joint2, base, remote'),
        (['joint1', 'remote'], 'command.joints must be joints or motors, not both, got '
                               "['joint1', 'remote']"),
        (['base', 'base'], "command.joints must be different joints, got ['base', 'base']"),
    ):
        result = two_link.probe.try_set({'command.joints': joints})
        assert (result.successful, result.reason) == (False, said)


# -- acceleration --------------------------------------------------------------------------------


def test_estimated_acceleration_over_uneven_stamps(two_link: Rig) -> None:
    """It is the filtered derivative of the velocities at their own stamps."""
    rng = np.random.default_rng(SEED)
    for cutoff in (10.0, 3.0):
        two_link.set(acceleration__cutoff=cutoff)
        two_link.stamps(PAUSE)
        derivative = FilteredDerivative(2, cutoff)
        sizes = []
        for index in range(6):
            q, v = two_link.q[index], two_link.v[index]
            two_link.stamps(int(rng.integers(1, 100_000_000)))
            found = two_link.answer(index)['inverse_dynamics']
            a = np.array(derivative.update(v.tolist(), stamp_of(found)))
            same(found.effort, two_link.model.inverse_dynamics(q, v, a))
            sizes.append(abs(a).max())
        assert sizes[0] == 0.0 and min(sizes[1:]) > 1.0


def test_acceleration_zero(rig: Rig) -> None:
    """The torque is C v + g, whatever the velocities do."""
    rig.set(acceleration__source='zero')
    for index in range(4):
        found = rig.answer(index)['inverse_dynamics']
        same(found.effort, rig.model.inverse_dynamics(
            rig.q[index], rig.v[index], np.zeros(len(rig.joints))))


def trajectory(joints: Sequence[str], **point: Sequence[float]) -> JointTrajectory:
    """Return a trajectory with one point."""
    return JointTrajectory(joint_names=list(joints), points=[JointTrajectoryPoint(
        **{name: [float(number) for number in numbers] for name, numbers in point.items()})])


def test_reference(spatial: Rig) -> None:
    """Desired accelerations, and positions and velocities where given, in any order."""
    spatial.set(acceleration__source='reference')
    spatial.enable('inverse_dynamics')
    model, zero = spatial.model, np.zeros(3)
    references = spatial.probe.publisher(JointTrajectory, '~/reference')
    (q, q_d), (v, v_d), a_d = spatial.q[:2], spatial.v[:2], spatial.a[1]

    def torque_becomes(expected: Array, position: Array, velocity: Array) -> None:
        """Wait until the answers use a reference: it comes on another topic."""
        def found() -> bool:
            answers = spatial.answer(0, 'command')
            message = answers['inverse_dynamics']
            return bool(
                np.allclose(message.effort, expected, rtol=0.0, atol=1e-9)
                and np.allclose(answers['command'].data, expected, rtol=0.0, atol=1e-9)
                and list(message.position) == position.tolist()
                and list(message.velocity) == velocity.tolist())
        spatial.probe.wait_for(found, what=f'a torque of {expected}')
        # What depends on the measured state alone still does.
        same(spatial.answer(0)['gravity_compensation'].effort, model.gravity(q))
        same(spatial.answer(0)['coriolis'].effort, model.coriolis_matrix(q, v) @ v)

    torque_becomes(model.inverse_dynamics(q, v, zero), q, v)  # nothing is desired yet
    references.publish(trajectory(spatial.joints, accelerations=a_d))
    torque_becomes(model.inverse_dynamics(q, v, a_d), q, v)
    references.publish(trajectory(
        [*spatial.joints[::-1], 'gripper'], positions=[*q_d[::-1], 9.0],
        velocities=[*v_d[::-1], 9.0], accelerations=[*-a_d[::-1], 9.0]))
    torque_becomes(model.inverse_dynamics(q_d, v_d, -a_d), q_d, v_d)
    references.publish(trajectory(spatial.joints, velocities=v_d, accelerations=a_d))
    torque_becomes(model.inverse_dynamics(q, v_d, a_d), q, v_d)

    # Refused ones are counted and change nothing.
    def refused(status: Any) -> int:
        return int(values_of(status)['refused: reference'])

    before = refused(spatial.probe.diagnostics('joint states'))
    bad = [
        JointTrajectory(joint_names=list(spatial.joints)),
        trajectory(spatial.joints, positions=q_d),
        trajectory(spatial.joints[:2], accelerations=a_d[:2]),
        trajectory(spatial.joints, accelerations=a_d[:2]),
        trajectory([*spatial.joints, 'joint1'], accelerations=[*a_d, 1.0]),
        trajectory(spatial.joints, accelerations=[np.nan, 0.0, 0.0]),
        trajectory(spatial.joints, accelerations=a_d, velocities=[np.inf, 0.0, 0.0]),
    ]
    for message in bad:
        references.publish(message)
    spatial.probe.diagnostics('joint states', lambda s: refused(s) == before + len(bad))
    torque_becomes(model.inverse_dynamics(q, v_d, a_d), q, v_d)

    # After the timeout the arm is to stay as it is.
    spatial.set(reference__timeout=0.05)
    torque_becomes(model.inverse_dynamics(q, v, zero), q, v)


@pytest.mark.parametrize('subtracted', [False, True])
def test_the_residual_is_where_the_arm_is_wherever_it_should_be(
        spatial: Rig, subtracted: bool) -> None:
    """Of measured positions and velocities; the acceleration is the desired one."""
    spatial.set(acceleration__source='reference', reference__timeout=0.0,
                residual__gravity_subtracted=subtracted)
    model, q_d, v_d, a_d = spatial.model, spatial.q[3], spatial.v[3], spatial.a[3]
    references = spatial.probe.publisher(JointTrajectory, '~/reference', BEST_EFFORT)

    def is_followed() -> bool:
        references.publish(trajectory(
            spatial.joints, positions=q_d, velocities=v_d, accelerations=a_d))
        return list(spatial.answer(0)['inverse_dynamics'].position) == q_d.tolist()

    spatial.probe.wait_for(is_followed, what='a reference sent with best effort')
    measured = np.array([1.5, -2.5, 0.5])
    for index in range(2):
        q, v = spatial.q[index], spatial.v[index]
        found = spatial.answer(index, 'residual', effort=measured)
        same(found['inverse_dynamics'].effort, model.inverse_dynamics(q_d, v_d, a_d))
        expected = measured - model.inverse_dynamics(q, v, a_d)
        same(found['residual'].effort, expected + subtracted * model.gravity(q))


# -- what acts on the arm ------------------------------------------------------------------------


def wrench(frame: str, force: Sequence[float], torque: Sequence[float]) -> WrenchStamped:
    """Return a wrench."""
    message = WrenchStamped()
    message.header.frame_id = frame
    for vector, numbers in ((message.wrench.force, force), (message.wrench.torque, torque)):
        vector.x, vector.y, vector.z = map(float, numbers)
    return message


def test_external_wrench(spatial: Rig) -> None:
    """The torque balances what pushes: less J'F, F along the axes of the link itself."""
    spatial.set(acceleration__source='zero', external_wrench__enabled=True,
                external_wrench__timeout=0.0)
    model, q, v = spatial.model, spatial.q[0], spatial.v[0]
    wrenches = spatial.probe.publisher(WrenchStamped, '~/external_wrench')
    force, torque = np.array([3.0, -5.0, 7.0]), np.array([-0.5, 0.25, 1.0])
    alone = model.inverse_dynamics(q, v, np.zeros(3))

    def push(frame: str) -> Array:
        R, J = model.frame_rotation(q, frame), model.frame_jacobian(q, frame)
        return J.T @ np.concatenate([R @ force, R @ torque])

    def torque_becomes(expected: Array, *, sent: WrenchStamped | None = None) -> None:
        def found() -> bool:
            if sent is not None:
                wrenches.publish(sent)  # best effort
            effort = spatial.answer(0)['inverse_dynamics'].effort
            return bool(np.allclose(effort, expected, rtol=0.0, atol=1e-9))
        spatial.probe.wait_for(found, what=f'a torque of {expected}')

    at_tool = wrench('tool0', force, torque)
    torque_becomes(alone)
    torque_becomes(alone - push('tool0'), sent=at_tool)
    torque_becomes(alone - push('tool0') - push('link2'), sent=wrench('link2', force, torque))
    spatial.set(external_wrench__enabled=False)
    torque_becomes(alone)
    spatial.set(external_wrench__enabled=True)
    torque_becomes(alone - push('tool0') - push('link2'))

    def refused(status: Any) -> int:
        return int(values_of(status)['refused: external_wrench'])

    before = refused(spatial.probe.diagnostics('joint states'))
    for bad in (wrench('moon', force, torque), wrench('tool0', [np.nan, 0.0, 0.0], torque),
                wrench('', force, torque)):
        count = refused(spatial.probe.diagnostics('joint states'))
        spatial.probe.ask(wrenches, bad, lambda count=count: refused(
            spatial.probe.diagnostics('joint states')) > count)
    assert refused(spatial.probe.diagnostics('joint states')) >= before + 3
    torque_becomes(alone - push('tool0') - push('link2'))

    spatial.set(external_wrench__timeout=0.05)
    torque_becomes(alone)


def test_what_was_desired_or_pushed_ends_with_deactivation(spatial: Rig) -> None:
    """Even if it counts for ever: after the next activation the arm may be elsewhere."""
    spatial.set(acceleration__source='reference', reference__timeout=0.0,
                external_wrench__enabled=True, external_wrench__timeout=0.0)
    model, q, v, a_d = spatial.model, spatial.q[0], spatial.v[0], spatial.a[0]
    references = spatial.probe.publisher(JointTrajectory, '~/reference')
    wrenches = spatial.probe.publisher(WrenchStamped, '~/external_wrench')
    alone = model.inverse_dynamics(q, v, np.zeros(3))

    def both_act() -> bool:
        references.publish(trajectory(spatial.joints, accelerations=a_d))
        wrenches.publish(wrench('tool0', [10.0, 20.0, 30.0], [0.0] * 3))
        effort = spatial.answer(0)['inverse_dynamics'].effort
        force = model.frame_rotation(q, 'tool0') @ [10.0, 20.0, 30.0]
        return bool(np.allclose(
            effort, model.inverse_dynamics(q, v, a_d)
            - model.frame_jacobian(q, 'tool0')[:3].T @ force, rtol=0.0, atol=1e-9))

    spatial.probe.set({'external_wrench.timeout': 1e-3})  # what tests before have sent
    same(spatial.answer(0)['gravity_compensation'].effort, model.gravity(q))
    spatial.probe.set({'external_wrench.timeout': 0.0})
    spatial.probe.wait_for(both_act, what='a torque with reference and wrench')
    spatial.probe.node.destroy_publisher(references)
    spatial.probe.node.destroy_publisher(wrenches)
    for transition in ('deactivate', 'activate'):
        assert spatial.probe.change_state(transition)
    for _ in range(3):
        same(spatial.answer(0)['inverse_dynamics'].effort, alone)


def test_friction(two_link: Rig) -> None:
    """Viscous and Coulomb friction of the URDF, or of the parameters where given."""
    def friction(viscous: Sequence[float], coulomb: Sequence[float], v: Array) -> Array:
        return np.multiply(viscous, v) + np.multiply(coulomb, np.sign(v))

    two_link.set(acceleration__source='zero')
    for parameters, viscous, coulomb in (
        ({'friction__enabled': False}, [0.0, 0.0], [0.0, 0.0]),
        ({'friction__enabled': True}, [0.1, 0.05], [0.2, 0.1]),
        ({'friction__viscous': [1.5, 2.5]}, [1.5, 2.5], [0.2, 0.1]),
        ({'friction__coulomb': [0.0, 4.0]}, [1.5, 2.5], [0.0, 4.0]),
        ({'friction__viscous': []}, [0.1, 0.05], [0.0, 4.0]),
        ({'friction__enabled': False}, [0.0, 0.0], [0.0, 0.0]),
    ):
        two_link.set(**parameters)
        for index in range(2):
            q, v = two_link.q[index], two_link.v[index]
            found = two_link.answer(index)
            same(found['inverse_dynamics'].effort,
                 two_link.model.inverse_dynamics(q, v, np.zeros(2))
                 + friction(viscous, coulomb, v))
            same(found['gravity_compensation'].effort, two_link.model.gravity(q))
    result = two_link.probe.try_set({'friction.viscous': [1.0]})
    assert not result.successful and 'viscous' in result.reason


def check_model(rig: Rig, model: Dynamics, count: int = 3) -> None:
    """Assert that every term that the node publishes is that of a model."""
    rig.set(acceleration__source='zero')
    for index in range(count):
        q, v = rig.q[index], rig.v[index]
        found = rig.answer(index, 'cross_check')
        same(found['gravity_compensation'].effort, model.gravity(q))
        same(found['coriolis'].effort, model.coriolis_matrix(q, v) @ v)
        same(found['inverse_dynamics'].effort, model.inverse_dynamics(q, v, np.zeros_like(q)))
        same(found['mass_matrix'].data, model.mass_matrix(q).ravel())
        (status,) = found['cross_check'].status
        assert status.level == OK and float(values_of(status)['worst']) < 1e-12


@pytest.mark.parametrize('arm', ARMS)
def test_payload(rigs: Callable[[str], Rig], arm: str) -> None:
    """It is a point mass welded to a link, for every engine at once."""
    rig = rigs(arm)
    # The tip is tool0, else the link behind the most moving joints.
    tip = 'tool0' if arm != RANDOM else None
    com = [0.02, 0.0, 0.0] if arm != RANDOM else [0.02, 0.03, -0.04]
    try:
        if tip:
            rig.set(payload__mass=1.25, payload__com=com)
            check_model(rig, load_dynamics(carrying(text(arm), tip, 1.25, com), 'lagrangian'))
        for parameter in ('payload__frame', 'tool_frame'):
            rig.restore()
            rig.set(payload__mass=0.5, payload__com=com, **{parameter: 'link1'})
            check_model(rig, load_dynamics(carrying(text(arm), 'link1', 0.5, com), 'lagrangian'))
        result = rig.probe.try_set({'payload.frame': 'moon'})
        assert not result.successful and 'moon' in result.reason
        assert not rig.probe.try_set({'payload.mass': -1.0}).successful
        check_model(rig, load_dynamics(carrying(text(arm), 'link1', 0.5, com), 'lagrangian'))
    finally:
        rig.restore()
    check_model(rig, rig.model)
    rig.restore()


def test_the_payload_is_no_tool(two_link: Rig) -> None:
    """The link that it becomes is gone with it: a tool is one of the URDF's links."""
    two_link.set(payload__mass=1.0, payload__frame='tool0', markers__enabled=True)
    result = two_link.probe.try_set({'tool_frame': 'payload'})
    assert (result.successful, result.reason) == (
        False, 'unknown tool_frame "payload", known are: base_link, link1, link2, tool0')
    two_link.set(tool_frame='link1')
    two_link.set(payload__mass=0.0)  # the tool is still there


def test_gravity_of_an_arm_on_the_wall(rig: Rig) -> None:
    """Gravity is a vector in the axes of the root link."""
    for gravity in ([9.81, 0.0, 0.0], [-2.0, 3.5, 8.8], [0.0, 0.0, 0.0]):
        rig.set(gravity=gravity)
        check_model(rig, load_dynamics(text(rig.arm), 'lagrangian', gravity))
    rig.restore()
    check_model(rig, load_dynamics(text(rig.arm), 'lagrangian', EARTH_GRAVITY))


def test_gravity_frame(two_link: Rig) -> None:
    """Gravity may be given in the axes of a link that is fixed to the root link."""
    # rpy = (pi/2, 0, 0): the frame's z axis is the root's -y axis, its y axis the root's z axis.
    mounted = add_to_robot(text('two_link'), """
      <link name="wall"/>
      <joint name="mount" type="fixed">
        <parent link="base_link"/><child link="wall"/>
        <origin xyz="1 2 3" rpy="1.5707963267948966 0 0"/>
      </joint>""")
    two_link.set(robot_description=mounted, gravity_frame='wall', gravity=[1.0, -9.0, 0.5])
    check_model(two_link, load_dynamics(text('two_link'), 'lagrangian', [1.0, -0.5, -9.0]))
    for frame in ('link1', 'moon'):
        result = two_link.probe.try_set({'gravity_frame': frame})
        assert not result.successful
        assert frame in result.reason
    check_model(two_link, load_dynamics(text('two_link'), 'lagrangian', [1.0, -0.5, -9.0]))


# -- engines, markers, frames --------------------------------------------------------------------


@pytest.mark.parametrize('engine, check_engine', [
    ('pinocchio', 'auto'), ('lagrangian', 'auto'), ('lagrangian', 'closed_form'),
    ('pinocchio', 'lagrangian'), ('closed_form', 'lagrangian')])
def test_engines(two_link: Rig, engine: str, check_engine: str) -> None:
    """Whose numbers go out and who checks them are parameters."""
    two_link.set(engine=engine, check_engine=check_engine)
    # What is published by one engine is compared with one that takes no part.
    takes_part = {engine, check_engine if check_engine != 'auto' else
                  'closed_form' if engine == 'pinocchio' else 'pinocchio'}
    (outsider,) = {'closed_form', 'lagrangian', 'pinocchio'} - takes_part
    check_model(two_link, load_dynamics(text('two_link'), outsider))
    values = values_of(two_link.answer(0, 'cross_check')['cross_check'].status[0])
    assert {values['engine'], values['check_engine']} == takes_part
    assert values['engine'] == engine
    result = two_link.probe.try_set({'check_engine': engine})
    assert not result.successful and engine in result.reason


def test_no_closed_form_is_said_in_diagnostics(rigs: Callable[[str], Rig]) -> None:
    """Where no formula fits, Pinocchio computes, the recipe checks it, and everybody is told."""
    rig = rigs(RANDOM)
    status = rig.probe.diagnostics('model')
    values = values_of(status)
    assert (values['engine'], values['check_engine']) == ('pinocchio', 'lagrangian')
    assert 'no closed form fits' in status.message
    (process,) = rig.probe.processes
    assert 'no closed form fits' in process.output()


def test_markers(spatial: Rig) -> None:
    """Centres of mass, gravity arcs and an ellipse while enabled; then the screen is cleared."""
    spatial.set(markers__enabled=True, markers__rate=1000.0)
    model, bodies = spatial.model, spatial.model.arm.bodies
    heights = []
    for index in range(4):
        q = spatial.q[index]
        drawn = spatial.answer(index, 'markers')['markers'].markers
        assert {marker.header.frame_id for marker in drawn} == {'base_link'}
        spheres = {marker.id: marker for marker in drawn if marker.ns == 'centres_of_mass'}
        assert sorted(spheres) == list(range(len(bodies)))
        # The potential energy of the drawn masses is the arm's, but for a constant.
        heights.append(9.81 * sum(body.inertia.mass * spheres[number].pose.position.z
                                  for number, body in enumerate(bodies))
                       - model.potential_energy(q))
        arcs = [marker for marker in drawn if marker.ns == 'gravity_torques']
        assert len(arcs) == 6
        (ellipse,) = [marker for marker in drawn if marker.ns == 'inertia_ellipse']
        tool = ellipse.pose.position
        # The tool's velocity is the rate of its drawn place.
        before = np.array([tool.x, tool.y, tool.z])
        step = 1e-6
        moved = spatial.answer(index, 'markers', q=q + step * spatial.v[index])['markers'].markers
        (ellipse,) = [marker for marker in moved if marker.ns == 'inertia_ellipse']
        tool = ellipse.pose.position
        rate = (np.array([tool.x, tool.y, tool.z]) - before) / step
        np.testing.assert_allclose(
            rate, model.frame_jacobian(q, 'tool0')[:3] @ spatial.v[index], rtol=0.0, atol=1e-4)
    np.testing.assert_allclose(heights, heights[0], rtol=0.0, atol=1e-9)

    spatial.inbox['markers'].clear()
    spatial.set(markers__enabled=False)
    spatial.probe.wait_for(lambda: spatial.inbox['markers'], what='the last markers')
    (last,) = spatial.inbox['markers']
    assert [marker.action for marker in last.markers] == [Marker.DELETEALL]
    spatial.answer(0, 'cross_check')
    spatial.never('markers')


def test_markers_come_at_their_own_rate(spatial: Rig) -> None:
    """A drawing is for eyes: not one for each joint state."""
    spatial.set(markers__enabled=True, markers__rate=0.1)
    spatial.probe.ask(  # the first may have to wait for the period before
        spatial.joint_states,
        joint_state(spatial.joints, spatial.q[0], spatial.v[0], stamp=spatial.stamps(STEP)),
        lambda: [m for m in spatial.inbox['markers'] if m.markers[0].action == Marker.ADD])
    for index in range(5):
        spatial.answer(index, 'cross_check')
    spatial.never('markers')


def test_frame_prefix(spatial: Rig) -> None:
    """TF's name of the root link is in every header; wrenches may name links by either."""
    spatial.set(frame_prefix='left/', markers__enabled=True, markers__rate=1000.0,
                external_wrench__enabled=True, external_wrench__timeout=0.0,
                acceleration__source='zero')
    found = spatial.answer(0, 'markers', 'residual', 'cross_check', effort=[0.0] * 3)
    assert {marker.header.frame_id for marker in found['markers'].markers} == {'left/base_link'}
    for topic, kind in TOPICS.items():
        if topic in found and kind is JointState:
            assert found[topic].header.frame_id == 'left/base_link', topic
    wrenches = spatial.probe.publisher(WrenchStamped, '~/external_wrench')
    q, v = spatial.q[0], spatial.v[0]
    alone = spatial.model.inverse_dynamics(q, v, np.zeros(3))
    R, J = spatial.model.frame_rotation(q, 'tool0'), spatial.model.frame_jacobian(q, 'tool0')
    for frame, force in (('left/tool0', [20.0, 0.0, 0.0]), ('tool0', [0.0, 30.0, 0.0])):
        expected = alone - J[:3].T @ (R @ force)

        def pushed(expected: Array = expected, frame: str = frame,
                   force: list[float] = force) -> bool:
            wrenches.publish(wrench(frame, force, [0.0] * 3))
            # Whatever pushes other links was sent by tests before and stays at them.
            wrenches.publish(wrench('link2', [0.0] * 3, [0.0] * 3))
            effort = spatial.answer(0)['inverse_dynamics'].effort
            return bool(np.allclose(effort, expected, rtol=0.0, atol=1e-9))
        spatial.probe.wait_for(pushed, what=f'a push at {frame}')


def test_parameters_change_between_two_joint_states(two_link: Rig) -> None:
    """Payload and gravity set at once: no answer ever has one without the other."""
    states: list[Mapping[str, Any]] = [
        {'gravity': list(EARTH_GRAVITY), 'payload.mass': 0.0},
        {'gravity': [0.0, 0.0, -1.62], 'payload.mass': 3.0},
    ]
    com = [0.0, 0.0, 0.0]
    two_link.set(payload__mass=0.0, gravity=list(EARTH_GRAVITY), acceleration__source='zero')
    models = [two_link.model, load_dynamics(
        carrying(text('two_link'), 'tool0', 3.0, com), 'lagrangian', [0.0, 0.0, -1.62])]
    q, v = two_link.q[0], two_link.v[0]
    for parameters, _ in zip(itertools.cycle(states[::-1]), range(4), strict=False):
        two_link.probe.set(parameters)
        found = two_link.answer(0)
        matches = [np.allclose(found['inverse_dynamics'].effort,
                               model.inverse_dynamics(q, v, np.zeros(2)), rtol=0.0, atol=1e-9)
                   for model in models]
        assert matches == [parameters is states[0], parameters is states[1]]
        same(found['mass_matrix'].data, models[matches.index(True)].mass_matrix(q).ravel())
