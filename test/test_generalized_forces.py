# SPDX-License-Identifier: Apache-2.0
"""Actuators, friction and pushes: D a + C v + g = B tau - Fv v - Fs sgn(v) + J'F."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio
import pytest
from random_arms import random_tree
from shipped import ENGINES, load, states_within_limits, text_of

from ros_lagdyn import (
    ForcedDynamics,
    InvalidArgumentError,
    LagdynError,
    SingularMassMatrixError,
    UnknownNameError,
    Wrench,
    load_dynamics,
)
from ros_lagdyn.closed_form.two_link_remote import REMOTE_DRIVE
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.kinematics import Kinematics

Array = np.ndarray
STEP = np.finfo(float).eps ** (1 / 3)  # optimal step of a central difference
DIFFERENCE_ERROR = 100 * STEP**2  # its relative error, with two digits of margin
FORCE, TORQUE = (3.0, -4.0, 5.0), (0.3, 0.7, -0.2)
OPEN_CHAINS = ('cartesian', 'prismatic_revolute', 'skew_cartesian', 'spatial_3r',
               'spherical_pendulum', 'two_link')
# Q_1 = tau_1 + tau_2, Q_2 = tau_2: both motors at the base (000, eq. 5-48).
REMOTE_B = np.array([[1.0, 1.0], [0.0, 1.0]])


@pytest.fixture
def elbow(engine: str) -> Dynamics:
    """Return the planar elbow: damping 0.1 and 0.05, friction 0.2 and 0.1."""
    return load('two_link', engine)


# -- friction --------------------------------------------------------------------------------


def test_friction_is_that_of_the_urdf_and_resists(elbow: Dynamics) -> None:
    """The motor must add F_v v + F_s sgn(v), which points along v."""
    forced = ForcedDynamics(elbow)
    np.testing.assert_allclose(
        forced.friction([2.0, -3.0]), [0.1 * 2.0 + 0.2, -(0.05 * 3.0 + 0.1)], rtol=1e-15)
    np.testing.assert_allclose(forced.friction([0.0, 1.0]), [0.0, 0.15], rtol=1e-15)


def test_friction_slows_the_arm_down(elbow: Dynamics) -> None:
    """The power that friction takes is positive, so the free arm loses energy."""
    forced = ForcedDynamics(elbow)
    q, v, a = states_within_limits(elbow, 50)
    assert ((forced.friction(v) * v).sum(-1) > 0.0).all()
    needed = forced.inverse_dynamics(q, v, a) - elbow.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(needed, forced.friction(v), rtol=1e-9, atol=1e-12)
    slower = forced.forward_dynamics(q, v, np.zeros_like(q))
    faster = elbow.forward_dynamics(q, v, np.zeros_like(q))
    M = elbow.mass_matrix(q)
    lost = np.einsum('ni,nij,nj->n', v, M, faster - slower)
    np.testing.assert_allclose(lost, (forced.friction(v) * v).sum(-1), rtol=1e-9)


def test_a_resting_arm_feels_no_friction(dynamics: Dynamics) -> None:
    """sgn(0) = 0: at rest the friction of the model is 0."""
    n = len(dynamics.joints)
    np.testing.assert_array_equal(ForcedDynamics(dynamics).friction(np.zeros(n)), np.zeros(n))


def test_explicit_friction_replaces_that_of_the_urdf(elbow: Dynamics) -> None:
    """Each of the two can be given on its own."""
    v = np.array([2.0, -3.0])
    viscous = ForcedDynamics(elbow, viscous=[1.0, 2.0])
    np.testing.assert_allclose(viscous.friction(v), [2.0 + 0.2, -6.0 - 0.1])
    coulomb = ForcedDynamics(elbow, coulomb=[1.0, 2.0])
    np.testing.assert_allclose(coulomb.friction(v), [0.2 + 1.0, -0.15 - 2.0])
    none = ForcedDynamics(elbow, viscous=[0.0, 0.0], coulomb=[0.0, 0.0])
    np.testing.assert_array_equal(none.friction(v), [0.0, 0.0])


def test_friction_of_mimic_joints_acts_on_the_joint_they_follow(engine: str) -> None:
    """A joint that turns back as joint 1 turns adds its own friction to joint 1."""
    text = text_of('two_link_remote').replace(
        '<mimic joint="joint1"', '<dynamics damping="0.3" friction="0.4"/><mimic joint="joint1"')
    forced = ForcedDynamics(load_dynamics(text, engine))
    np.testing.assert_allclose(
        forced.friction([2.0, -3.0]), [(0.1 + 0.3) * 2.0 + 0.2 + 0.4, -0.05 * 3.0 - 0.1])
    np.testing.assert_allclose(
        forced.friction([-2.0, 0.0]), [-(0.1 + 0.3) * 2.0 - 0.2 - 0.4, 0.0])


@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_friction_of_geared_mimic_joints_keeps_the_power(engine: str) -> None:
    """What all joints lose to friction is what the independent joints must supply."""
    rng = np.random.default_rng(21)
    for joints in (3, 5, 7):
        dynamics = load_dynamics(random_tree(rng, joints), engine)
        v = states_within_limits(dynamics, 20).v
        rates = v @ dynamics.arm.projection.T  # of every joint of the tree
        lost = sum(body.joint.damping * rates[:, row] ** 2
                   + body.joint.friction * abs(rates[:, row])
                   for row, body in enumerate(dynamics.arm.bodies))
        friction = ForcedDynamics(dynamics).friction(v)
        np.testing.assert_allclose((friction * v).sum(-1), lost, rtol=1e-12)


# -- actuators -------------------------------------------------------------------------------


def test_remote_drive_both_ways(elbow: Dynamics) -> None:
    """Q = B tau and back, for two motors at the base (000, eq. 5-48)."""
    forced = ForcedDynamics(elbow, actuation=REMOTE_B)
    np.testing.assert_array_equal(forced.joint_torques([5.0, 2.0]), [7.0, 2.0])
    np.testing.assert_allclose(forced.actuator_torques([7.0, 2.0]), [5.0, 2.0], rtol=1e-14)
    np.testing.assert_array_equal(REMOTE_DRIVE.joint_torques([5.0, 2.0]), [7.0, 2.0])
    np.testing.assert_array_equal(REMOTE_DRIVE.actuator_torques([7.0, 2.0]), [5.0, 2.0])


def test_motors_of_the_remote_drive_do_the_work_of_the_joints(elbow: Dynamics) -> None:
    """Virtual work (000, eq. 5-47): tau . dp = Q . dq with dp = (dq_1, dq_1 + dq_2)."""
    forced = ForcedDynamics(elbow, actuation=REMOTE_B)
    rng = np.random.default_rng(1)
    tau, dq = rng.normal(size=(2, 100, 2))
    dp = np.stack([dq[:, 0], dq[:, 0] + dq[:, 1]], axis=1)
    np.testing.assert_allclose(
        (tau * dp).sum(-1), (forced.joint_torques(tau) * dq).sum(-1), rtol=1e-9, atol=1e-12)


def test_elbow_driven_remotely_is_the_remotely_driven_elbow(engine: str) -> None:
    """The torques of both motors are those of `two_link_remote` at absolute angles."""
    forced = ForcedDynamics(load('two_link', engine), actuation=REMOTE_B, viscous=[0.0, 0.0],
                            coulomb=[0.0, 0.0])
    q, v, a = states_within_limits(forced.dynamics, 50)
    to_p = np.array([[1.0, 0.0], [1.0, 1.0]]).T
    expected = load('two_link_remote', engine).inverse_dynamics(q @ to_p, v @ to_p, a @ to_p)
    np.testing.assert_allclose(forced.inverse_dynamics(q, v, a), expected, atol=1e-12)


def test_redundant_actuators_share_the_load(elbow: Dynamics) -> None:
    """Two equal motors at one joint give half of its torque each: the smallest torques."""
    forced = ForcedDynamics(elbow, actuation=[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(forced.actuator_torques([6.0, 2.0]), [3.0, 3.0, 2.0], rtol=1e-14)
    q, v, a = (x[0] for x in states_within_limits(elbow, 1))
    tau = forced.inverse_dynamics(q, v, a)
    assert tau.shape == (3,)
    np.testing.assert_allclose(forced.forward_dynamics(q, v, tau), a, rtol=1e-9)


def test_too_few_actuators_are_an_error_that_names_the_joint(elbow: Dynamics) -> None:
    """One motor at joint 1 cannot hold joint 2; it can do what needs joint 1 only."""
    forced = ForcedDynamics(elbow, actuation=[[1.0], [0.0]])
    with pytest.raises(LagdynError, match=r'1 are missing at joint "joint2"'):
        forced.actuator_torques([0.0, 1.0])
    with pytest.raises(LagdynError, match='cannot produce'):
        forced.inverse_dynamics([0.1, 0.2], [0.0, 0.0], [0.0, 0.0])
    np.testing.assert_allclose(forced.actuator_torques([3.0, 0.0]), [3.0])
    # Forward dynamics of an underactuated arm is no problem.
    a = forced.forward_dynamics([0.1, 0.2], [0.0, 0.0], [1.0])
    np.testing.assert_allclose(a, elbow.forward_dynamics([0.1, 0.2], [0.0, 0.0], [1.0, 0.0]))


def test_a_state_that_cannot_be_held_is_found_in_any_batch(elbow: Dynamics) -> None:
    """What is missing at one state counts against that state, not against the largest one."""
    forced = ForcedDynamics(elbow, actuation=[[1.0], [0.0]])
    with pytest.raises(LagdynError, match='cannot produce'):
        forced.actuator_torques([[1e12, 0.0], [0.0, 1.0]])


def test_idle_batch_of_torques(elbow: Dynamics) -> None:
    """Zero torques need zero torques, and an empty batch gives an empty one."""
    forced = ForcedDynamics(elbow, actuation=[[1.0], [0.0]])
    np.testing.assert_array_equal(forced.actuator_torques([0.0, 0.0]), [0.0])
    assert forced.actuator_torques(np.zeros((0, 2))).shape == (0, 1)


# -- wrenches --------------------------------------------------------------------------------


def frame_position(dynamics: Dynamics, q: Array, frame: str) -> Array:
    """Return where the origin of a link's frame is; (3,)."""
    kinematics = Kinematics(dynamics.arm)
    poses = kinematics.poses(kinematics.tree_positions(q[None]))
    fixed_on = dynamics.arm.frame(frame)
    return (poses.origin[0, fixed_on.body]
            + poses.rotation[0, fixed_on.body] @ fixed_on.placement.translation)


def turning(dynamics: Dynamics, q: Array, dq: Array, frame: str) -> Array:
    """Return the angular velocity of a link's frame while q moves with dq; (3,)."""
    before, after = (dynamics.frame_rotation(q + h * dq, frame) for h in (-STEP, STEP))
    W = (after - before) / (2 * STEP) @ dynamics.frame_rotation(q, frame).T
    return np.array([W[2, 1], W[0, 2], W[1, 0]])


def test_a_wrench_does_the_work_of_its_joint_torques(dynamics: Dynamics) -> None:
    """Virtual work: Q . dq = F . dx + moment . dphi, for any dq."""
    forced = ForcedDynamics(dynamics)
    for q, dq, _ in zip(*states_within_limits(dynamics, 10), strict=True):
        x = [frame_position(dynamics, q + h * dq, 'tool0') for h in (-STEP, STEP)]
        dx, dphi = (x[1] - x[0]) / (2 * STEP), turning(dynamics, q, dq, 'tool0')
        Q = forced.external(q, [Wrench(frame='tool0', force=FORCE, torque=TORQUE)])
        scale = 10.0 * (1.0 + np.linalg.norm(dq))
        np.testing.assert_allclose(
            Q @ dq, np.dot(FORCE, dx) + np.dot(TORQUE, dphi), atol=DIFFERENCE_ERROR * scale)


def test_axes_of_the_frame_turn_with_it(dynamics: Dynamics) -> None:
    """A wrench in the frame's axes is the wrench turned into base axes."""
    forced = ForcedDynamics(dynamics)
    for q in states_within_limits(dynamics, 10).q:
        R = dynamics.frame_rotation(q, 'tool0')
        local = Wrench(frame='tool0', force=FORCE, torque=TORQUE, axes='frame')
        turned = Wrench(frame='tool0', force=tuple(R @ FORCE), torque=tuple(R @ TORQUE))
        np.testing.assert_allclose(
            forced.external(q, [local]), forced.external(q, [turned]), atol=1e-13)


def test_a_hanging_weight_is_gravity(engine: str) -> None:
    """1 kg more at the tool and its weight as a wrench hold the arm with the same torques."""
    arm = load('two_link', engine)
    text = text_of('two_link').replace('<link name="tool0"/>', (
        '<link name="tool0"><inertial><mass value="1"/>'
        '<inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>'))
    q = states_within_limits(arm, 20).q
    weight = Wrench(frame='tool0', force=(0.0, 0.0, -9.81))
    np.testing.assert_allclose(
        arm.gravity(q) - ForcedDynamics(arm).external(q, [weight]),
        load_dynamics(text, engine).gravity(q), atol=1e-12)


def test_wrenches_add_up(dynamics: Dynamics) -> None:
    """Several wrenches act together; none is none; one on the base does nothing."""
    forced = ForcedDynamics(dynamics)
    q = states_within_limits(dynamics, 5).q
    one = Wrench(frame='tool0', force=FORCE)
    two = Wrench(frame='link1', torque=TORQUE, axes='frame')
    np.testing.assert_allclose(
        forced.external(q, [one, two]), forced.external(q, [one]) + forced.external(q, [two]),
        atol=1e-13)
    np.testing.assert_array_equal(forced.external(q, []), np.zeros_like(q))
    pushed_base = forced.external(q, [Wrench(frame='base_link', force=FORCE, torque=TORQUE)])
    np.testing.assert_array_equal(pushed_base, np.zeros_like(q))


def pinocchio_rnea(text: str, q: Array, v: Array, a: Array, wrench: Wrench,
                   gravity: Array) -> Array:
    """Return the torques that Pinocchio finds against gravity and an external wrench."""
    model = pinocchio.buildModelFromXML(text)
    model.gravity.linear = np.asarray(gravity)
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, q)
    frame = model.frames[model.getFrameId(wrench.frame, pinocchio.FrameType.BODY)]
    into_frame = np.eye(3)
    if wrench.axes == 'base':
        into_frame = data.oMf[model.getFrameId(
            wrench.frame, pinocchio.FrameType.BODY)].rotation.T
    at_frame = pinocchio.Force(
        into_frame @ np.array(wrench.force), into_frame @ np.array(wrench.torque))
    forces = pinocchio.StdVec_Force()
    for _ in range(model.njoints):
        forces.append(pinocchio.Force.Zero())
    forces[frame.parentJoint] = frame.placement.act(at_frame)
    return pinocchio.rnea(model, data, q, v, a, forces)


@pytest.mark.parametrize('axes', ['base', 'frame'])
@pytest.mark.parametrize('stem', OPEN_CHAINS)
def test_pinocchio_finds_the_same_torques_under_a_wrench(
        stem: str, engine: str, axes: str) -> None:
    """Pinocchio's recursive Newton-Euler algorithm with external forces is the oracle."""
    dynamics = load(stem, engine)
    n = len(dynamics.joints)
    forced = ForcedDynamics(dynamics, viscous=np.zeros(n), coulomb=np.zeros(n))
    wrench = Wrench(frame='tool0', force=FORCE, torque=TORQUE, axes=axes)
    for q, v, a in zip(*states_within_limits(dynamics, 5), strict=True):
        expected = pinocchio_rnea(text_of(stem), q, v, a, wrench, dynamics.gravity_vector)
        np.testing.assert_allclose(
            forced.inverse_dynamics(q, v, a, [wrench]), expected, atol=1e-11)


# -- everything together ---------------------------------------------------------------------


def test_forward_of_inverse_dynamics_with_everything(dynamics: Dynamics) -> None:
    """With friction, pushes and a transmission, forward still undoes inverse."""
    n = len(dynamics.joints)
    B = np.eye(n) + np.triu(np.ones((n, n)), 1)
    forced = ForcedDynamics(dynamics, actuation=B)
    pushes = [Wrench(frame='tool0', force=FORCE, torque=TORQUE, axes='frame'),
              Wrench(frame='link1', force=FORCE)]
    q, v, a = states_within_limits(dynamics, 20)
    tau = forced.inverse_dynamics(q, v, a, pushes)
    back = forced.forward_dynamics(q, v, tau, pushes)
    M = dynamics.mass_matrix(q)
    scale = abs(tau).max() / np.linalg.eigvalsh(M)[:, 0]  # rounding, magnified by M^-1
    assert (abs(back - a).max(axis=1) <= 1e-13 * scale + 1e-12).all()


def test_equation_of_motion(elbow: Dynamics) -> None:
    """D a + C v + g = B tau - Fv v - Fs sgn(v) + J'F, term by term."""
    Fv, Fs = np.array([0.7, 0.4]), np.array([0.5, 0.6])
    forced = ForcedDynamics(elbow, actuation=REMOTE_B, viscous=Fv, coulomb=Fs)
    push = Wrench(frame='tool0', force=FORCE, torque=TORQUE)
    for q, v, a in zip(*states_within_limits(elbow, 10), strict=True):
        D, C, g = elbow.all_terms(q, v)
        tau = forced.inverse_dynamics(q, v, a, [push])
        J = elbow.frame_jacobian(q, 'tool0')
        np.testing.assert_allclose(
            D @ a + C @ v + g,
            REMOTE_B @ tau - Fv * v - Fs * np.sign(v) + J.T @ np.array([*FORCE, *TORQUE]),
            atol=1e-12)


def test_batch_and_single_states_agree(dynamics: Dynamics) -> None:
    """Every method gives for a batch what it gives for its states one by one."""
    forced = ForcedDynamics(dynamics)
    push = [Wrench(frame='tool0', force=FORCE, axes='frame')]
    q, v, a = states_within_limits(dynamics, 5)
    tau = forced.inverse_dynamics(q, v, a, push)
    back = forced.forward_dynamics(q, v, tau, push)
    for index in range(5):
        one = forced.inverse_dynamics(q[index], v[index], a[index], push)
        assert one.shape == (len(dynamics.joints),)
        np.testing.assert_allclose(one, tau[index], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            forced.forward_dynamics(q[index], v[index], tau[index], push), back[index], rtol=1e-9,
            atol=1e-9)
        np.testing.assert_array_equal(forced.friction(v[index]), forced.friction(v)[index])


def test_singular_mass_matrix_stays_an_error(engine: str) -> None:
    """The pendulum at its pole is as singular with friction as without."""
    forced = ForcedDynamics(load('spherical_pendulum', engine))
    with pytest.raises(SingularMassMatrixError):
        forced.forward_dynamics([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])


# -- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize('arguments', [
    {'actuation': [[1.0], [2.0], [3.0]]}, {'actuation': [[], []]}, {'actuation': [1.0, 1.0]},
    {'actuation': [[1.0, np.nan], [0.0, 1.0]]}, {'actuation': 'motors'},
    {'actuation': [[1.0], [1.0, 2.0]]},
    {'viscous': [1.0]}, {'viscous': [-1.0, 0.0]}, {'viscous': [[1.0, 1.0]]},
    {'viscous': [np.nan, 0.0]}, {'viscous': 'thick'},
    {'coulomb': [1.0, 2.0, 3.0]}, {'coulomb': [0.0, -1e-9]}, {'coulomb': [np.inf, 0.0]},
], ids=repr)
def test_impossible_actuators_and_friction_are_refused(arguments: dict[str, Any]) -> None:
    """What is no matrix or no friction is an InvalidArgumentError that says which."""
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        ForcedDynamics(load('two_link', 'closed_form'), **arguments)


@pytest.mark.parametrize('arguments', [
    {'force': (1.0, 2.0)}, {'force': (np.nan, 0.0, 0.0)}, {'torque': (0.0, np.inf, 0.0)},
    {'torque': 'twist'}, {'axes': 'world'}, {'force': ((1.0, 2.0, 3.0),)},
], ids=repr)
def test_impossible_wrenches_are_refused(arguments: dict[str, Any]) -> None:
    """What is no wrench is refused when it is made, not when it acts."""
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        Wrench(frame='tool0', **arguments)


def test_a_wrench_at_an_unknown_frame_is_an_error(engine: str) -> None:
    """The error lists the frames that there are, in every engine and for both axes."""
    forced = ForcedDynamics(load('two_link', engine))
    for axes in ('base', 'frame'):
        with pytest.raises(UnknownNameError, match='tool0'):
            forced.external([0.0, 0.0], [Wrench(frame='gripper', force=FORCE, axes=axes)])


@pytest.mark.parametrize('engine', ENGINES)
def test_vectors_of_wrong_length_are_refused(engine: str) -> None:
    """Actuator torques have the length of B's columns, all else that of the joints."""
    forced = ForcedDynamics(load('two_link', engine), actuation=[[1.0], [0.0]])
    with pytest.raises(InvalidArgumentError, match='actuator_torques'):
        forced.joint_torques([1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match='actuator_torques'):
        forced.forward_dynamics([0.0, 0.0], [0.0, 0.0], [1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match='joint_torques'):
        forced.actuator_torques([1.0])
    with pytest.raises(InvalidArgumentError):
        forced.friction([1.0])
    with pytest.raises(InvalidArgumentError):
        forced.external([1.0], [])
