# SPDX-License-Identifier: Apache-2.0
"""Transformed coordinates dp = J dq: the same motion, the same laws, the same work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.linalg import norm
from shipped import GRAVITIES, load, states_within_limits

from ros_lagdyn import (
    Coordinates,
    ForcedDynamics,
    InvalidArgumentError,
    LagdynError,
    LinearCoordinates,
    TransformedDynamics,
    Wrench,
    check_laws,
    parameter_vector,
    regressor,
)
from ros_lagdyn.closed_form.two_link_remote import REMOTE_DRIVE
from ros_lagdyn.dynamics import Dynamics

Array = np.ndarray
STEP = np.finfo(float).eps ** (1 / 3)  # optimal step of a central difference
DIFFERENCE_ERROR = 100 * STEP**2  # its relative error, with two digits of margin
EYE = [[1.0, 0.0], [0.0, 1.0]]


def times(matrix: Array, vector: Array) -> Array:
    """Return the products of a batch of matrices and vectors."""
    return (matrix @ vector[..., None])[..., 0]


# -- the remotely driven elbow ---------------------------------------------------------------


@pytest.fixture(params=['earth', 'tilted', 'none'])
def both(request: pytest.FixtureRequest, engine: str) -> tuple[Dynamics, Dynamics]:
    """Return the elbow seen in p-coordinates, and the arm that has them as joints."""
    gravity = GRAVITIES[request.param]
    return (TransformedDynamics(load('two_link', engine, gravity), REMOTE_DRIVE),
            load('two_link_remote', engine, gravity))


def test_elbow_in_absolute_angles_is_the_remotely_driven_elbow(
        both: tuple[Dynamics, Dynamics]) -> None:
    """`two_link` seen in p-coordinates equals `two_link_remote`, term by term (000, 5.2.4)."""
    seen, remote = both
    p, v, a = states_within_limits(remote, 100)
    tau = remote.inverse_dynamics(p, v, a)
    for ours, theirs in zip(seen.all_terms(p, v), remote.all_terms(p, v), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(seen.inverse_dynamics(p, v, a), tau, atol=1e-12)
    np.testing.assert_allclose(seen.forward_dynamics(p, v, tau), a, atol=1e-10)
    np.testing.assert_allclose(seen.kinetic_energy(p, v), remote.kinetic_energy(p, v), atol=1e-12)
    np.testing.assert_allclose(seen.potential_energy(p), remote.potential_energy(p), atol=1e-12)


def test_frames_of_the_remotely_driven_elbow(both: tuple[Dynamics, Dynamics]) -> None:
    """Jacobians and rotations of frames are seen in p-coordinates too."""
    seen, remote = both
    p = states_within_limits(remote, 20).q
    np.testing.assert_allclose(
        seen.frame_jacobian(p, 'tool0'), remote.frame_jacobian(p, 'tool0'), atol=1e-14)
    np.testing.assert_allclose(
        seen.frame_rotation(p, 'tool0'), remote.frame_rotation(p, 'tool0'), atol=1e-14)
    assert seen.frame_rotation(p[0], 'tool0').shape == (3, 3)


def test_names_and_engine(engine: str) -> None:
    """The transformed arm has the names of its coordinates, and the engine behind it."""
    seen = TransformedDynamics(load('two_link', engine), REMOTE_DRIVE)
    assert seen.joints == ('p1', 'p2')
    assert seen.engine == engine
    np.testing.assert_array_equal(seen.gravity_vector, (0.0, 0.0, -9.81))


def test_pushes_are_seen_in_the_new_coordinates(engine: str) -> None:
    """A wrench at the tool has the torques that the remotely driven elbow feels."""
    seen = TransformedDynamics(load('two_link', engine), REMOTE_DRIVE)
    remote = load('two_link_remote', engine)
    push = [Wrench(frame='tool0', force=(1.0, 2.0, 3.0), axes='frame')]
    p = states_within_limits(remote, 10).q
    np.testing.assert_allclose(ForcedDynamics(seen).external(p, push),
                               ForcedDynamics(remote).external(p, push), atol=1e-13)


def test_friction_of_the_joints_is_not_friction_of_the_coordinates(engine: str) -> None:
    """URDF friction acts on joints: whatever the coordinates, it takes the same power."""
    arm = load('two_link', engine)
    seen = TransformedDynamics(arm, REMOTE_DRIVE)
    v = states_within_limits(arm, 20).v
    v_p = v @ REMOTE_DRIVE.J.T
    try:
        friction = ForcedDynamics(seen).friction(v_p)
    except LagdynError:
        return  # refusing to guess is right too
    np.testing.assert_allclose(
        (friction * v_p).sum(-1), (ForcedDynamics(arm).friction(v) * v).sum(-1), rtol=1e-12)


def test_regressor_of_other_coordinates_is_right_or_refused(engine: str) -> None:
    """Y theta = tau in p-coordinates too, or a clear error; never a wrong Y."""
    seen = TransformedDynamics(load('two_link', engine), REMOTE_DRIVE)
    p, v, a = states_within_limits(load('two_link_remote', engine), 10)
    try:
        Y = regressor(seen, p, v, a)
    except LagdynError:
        return
    np.testing.assert_allclose(
        Y @ parameter_vector(seen.arm), seen.inverse_dynamics(p, v, a), atol=1e-12)


def test_laws_raise_no_false_alarm_in_other_coordinates(engine: str) -> None:
    """Every law that is measured holds for the elbow in p-coordinates."""
    seen = TransformedDynamics(load('two_link', engine), REMOTE_DRIVE)
    states = states_within_limits(load('two_link_remote', engine), 20)
    assert [result.law for result in check_laws(seen, *states) if not result.holds] == []


# -- a nonlinear change: where the tool is ---------------------------------------------------

L_1, L_2, HEIGHT = 0.5, 0.4, 0.6  # [m], of urdf/two_link.urdf


def _tool(q: Array) -> Array:
    angle = q[:, 0] + q[:, 1]
    return np.stack([L_1 * np.cos(q[:, 0]) + L_2 * np.cos(angle),
                     HEIGHT + L_1 * np.sin(q[:, 0]) + L_2 * np.sin(angle)], axis=1)


def _joints(p: Array) -> Array:
    """Return the joint angles of a tool position, the elbow bent upwards (q_2 > 0)."""
    x, z = p[:, 0], p[:, 1] - HEIGHT
    q_2 = np.arccos((x**2 + z**2 - L_1**2 - L_2**2) / (2 * L_1 * L_2))
    q_1 = np.arctan2(z, x) - np.arctan2(L_2 * np.sin(q_2), L_1 + L_2 * np.cos(q_2))
    return np.stack([q_1, q_2], axis=1)


def _jacobian(q: Array) -> Array:
    s_1, c_1 = L_1 * np.sin(q[:, 0]), L_1 * np.cos(q[:, 0])
    s_12, c_12 = L_2 * np.sin(q[:, 0] + q[:, 1]), L_2 * np.cos(q[:, 0] + q[:, 1])
    return np.moveaxis(np.array([[-s_1 - s_12, -s_12], [c_1 + c_12, c_12]]), 2, 0)


def _jacobian_rate(q: Array, v: Array) -> Array:
    w_1, w_12 = v[:, 0], v[:, 0] + v[:, 1]
    s_1, c_1 = L_1 * np.sin(q[:, 0]), L_1 * np.cos(q[:, 0])
    s_12, c_12 = L_2 * np.sin(q[:, 0] + q[:, 1]), L_2 * np.cos(q[:, 0] + q[:, 1])
    return np.moveaxis(np.array([
        [-c_1 * w_1 - c_12 * w_12, -c_12 * w_12], [-s_1 * w_1 - s_12 * w_12, -s_12 * w_12]]), 2, 0)


TOOL = Coordinates(names=('x', 'z'), positions=_tool, joint_positions=_joints,
                   jacobian=_jacobian, jacobian_rate=_jacobian_rate)


def bent_states(count: int) -> tuple[Array, Array, Array]:
    """Return joint states of the elbow, bent far enough for the tool to move either way."""
    rng = np.random.default_rng(31)
    return (np.stack([rng.uniform(-0.3, 2.0, count), rng.uniform(0.6, 2.4, count)], axis=1),
            rng.uniform(-2.0, 2.0, (count, 2)), rng.uniform(-9.0, 9.0, (count, 2)))


@pytest.fixture
def tool(engine: str) -> Dynamics:
    """Return the elbow, seen from its tool."""
    return TransformedDynamics(load('two_link', engine), TOOL)


def along(function: Callable[[Array], Any], p: Array, v: Array) -> Array:
    """Return the derivative of function(p) while p moves with v."""
    h = STEP / max(1.0, norm(v))
    return (function(p + h * v) - function(p - h * v)) / (2.0 * h)


def test_these_tool_coordinates_are_those_of_the_urdf(engine: str) -> None:
    """The test's own geometry is right: J is the Jacobian of tool0, and q(p(q)) = q."""
    arm = load('two_link', engine)
    q, v, _ = bent_states(20)
    np.testing.assert_allclose(_joints(_tool(q)), q, atol=1e-12)
    np.testing.assert_allclose(_jacobian(q), arm.frame_jacobian(q, 'tool0')[:, [0, 2]], atol=1e-14)
    for index in range(20):
        rate = along(lambda x: _jacobian(x[None])[0], q[index], v[index])
        np.testing.assert_allclose(_jacobian_rate(q, v)[index], rate, atol=1e-8)


def test_torques_and_forces_do_the_same_work(tool: Dynamics, engine: str) -> None:
    """tau_q = J' tau_p (000, 5.2.4), at any state and acceleration."""
    arm = load('two_link', engine)
    q, v, a = bent_states(50)
    J = _jacobian(q)
    acceleration = times(J, a) + times(_jacobian_rate(q, v), v)
    force = tool.inverse_dynamics(_tool(q), times(J, v), acceleration)
    np.testing.assert_allclose(
        times(np.swapaxes(J, 1, 2), force), arm.inverse_dynamics(q, v, a), atol=1e-10)
    np.testing.assert_allclose(
        tool.forward_dynamics(_tool(q), times(J, v), force), acceleration, atol=1e-9)


def test_energies_are_the_same_in_all_coordinates(tool: Dynamics, engine: str) -> None:
    """Kinetic and potential energy do not depend on how a motion is described."""
    arm = load('two_link', engine)
    q, v, _ = bent_states(50)
    np.testing.assert_allclose(tool.kinetic_energy(_tool(q), times(_jacobian(q), v)),
                               arm.kinetic_energy(q, v), rtol=1e-12)
    np.testing.assert_allclose(tool.potential_energy(_tool(q)), arm.potential_energy(q),
                               rtol=1e-12)


def test_laws_hold_in_nonlinear_coordinates(tool: Dynamics) -> None:
    """M' - 2 C stays skew, C v = M' v - dT/dp and g = dU/dp also for the tool's position."""
    q, v, _ = bent_states(20)
    for p, rate in zip(_tool(q), times(_jacobian(q), v), strict=True):
        M, C, g = tool.all_terms(p, rate)
        # The inverse of J varies quickly where the elbow is bent only a little.
        atol = 100 * DIFFERENCE_ERROR * norm(M) * max(1.0, norm(rate))
        M_rate = along(tool.mass_matrix, p, rate)
        N = M_rate - 2 * C
        np.testing.assert_allclose(N, -N.T, rtol=0.0, atol=atol)
        dT = np.array([along(lambda x, w=rate: tool.kinetic_energy(x, w), p, e)
                       for e in np.eye(2)])
        np.testing.assert_allclose(C @ rate, M_rate @ rate - dT, rtol=0.0,
                                   atol=atol * max(1.0, norm(rate)))
        dU = np.array([along(tool.potential_energy, p, e) for e in np.eye(2)])
        np.testing.assert_allclose(g, dU, rtol=0.0, atol=100 * DIFFERENCE_ERROR * (10 + norm(g)))


def test_batch_and_single_states_agree(tool: Dynamics) -> None:
    """A batch is its states, one by one."""
    q, v, a = bent_states(5)
    p, rate = _tool(q), times(_jacobian(q), v)
    for name, arguments in (
            ('mass_matrix', (p,)), ('coriolis_matrix', (p, rate)), ('gravity', (p,)),
            ('kinetic_energy', (p, rate)), ('potential_energy', (p,)),
            ('inverse_dynamics', (p, rate, a)), ('forward_dynamics', (p, rate, a))):
        batch = getattr(tool, name)(*arguments)
        for index in range(5):
            single = getattr(tool, name)(*(argument[index] for argument in arguments))
            np.testing.assert_allclose(single, batch[index], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize('q_1', [0.0, 0.3])
def test_stretched_elbow_is_a_clear_error(engine: str, q_1: float) -> None:
    """Where J is singular, exactly or to rounding, one error of the package says so."""
    def stretched(p: Array) -> Array:
        return np.broadcast_to([q_1, 0.0], p.shape)

    tool = TransformedDynamics(load('two_link', engine), Coordinates(
        names=('x', 'z'), positions=_tool, joint_positions=stretched, jacobian=_jacobian,
        jacobian_rate=_jacobian_rate))
    zero = np.zeros(2)
    for call in (lambda: tool.mass_matrix(zero), lambda: tool.gravity(zero),
                 lambda: tool.coriolis_matrix(zero, zero),
                 lambda: tool.inverse_dynamics(zero, zero, zero),
                 lambda: tool.forward_dynamics(zero, zero, zero),
                 lambda: tool.frame_jacobian(zero, 'tool0')):
        with pytest.raises(LagdynError):
            call()


def test_a_singular_state_of_a_batch_is_a_clear_error(engine: str) -> None:
    """One singular state among good ones is found."""
    angles = np.array([[0.3, 1.0], [0.3, 0.0], [0.2, 0.9]])
    tool = TransformedDynamics(load('two_link', engine), Coordinates(
        names=('x', 'z'), positions=_tool, joint_positions=lambda p: angles, jacobian=_jacobian,
        jacobian_rate=_jacobian_rate))
    with pytest.raises(LagdynError):
        tool.mass_matrix(_tool(angles))


def test_out_of_reach_is_a_clear_error(tool: Dynamics) -> None:
    """A tool position that no joint angles have is an error, not a matrix of NaN."""
    with np.errstate(invalid='ignore'), pytest.raises(LagdynError):
        tool.mass_matrix([5.0, 5.0])


# -- linear coordinates of any arm -----------------------------------------------------------


def test_gears_keep_the_laws_of_every_arm(dynamics: Dynamics) -> None:
    """Any constant J, with an offset, keeps skew symmetry, energy and work."""
    n = len(dynamics.joints)
    rng = np.random.default_rng(32)
    gears = LinearCoordinates(np.eye(n) + 0.3 * rng.normal(size=(n, n)),
                              offset=rng.normal(size=n))
    seen = TransformedDynamics(dynamics, gears)
    assert seen.joints == tuple(f'p{index + 1}' for index in range(n))
    q, v, a = states_within_limits(dynamics, 10)
    p, rate, acceleration = gears.positions(q), v @ gears.J.T, a @ gears.J.T
    np.testing.assert_allclose(gears.joint_positions(p), q, atol=1e-13)
    np.testing.assert_allclose(
        gears.joint_torques(seen.inverse_dynamics(p, rate, acceleration)),
        dynamics.inverse_dynamics(q, v, a), atol=1e-10)
    np.testing.assert_allclose(
        seen.kinetic_energy(p, rate), dynamics.kinetic_energy(q, v), rtol=1e-12)
    np.testing.assert_allclose(
        seen.potential_energy(p), dynamics.potential_energy(q), rtol=1e-12, atol=1e-12)
    for index in range(10):
        M, C, _ = seen.all_terms(p[index], rate[index])
        N = along(seen.mass_matrix, p[index], rate[index]) - 2 * C
        atol = 10 * DIFFERENCE_ERROR * norm(M) * max(1.0, norm(rate[index]))
        np.testing.assert_allclose(N, -N.T, rtol=0.0, atol=atol)


def test_torques_of_linear_coordinates_both_ways() -> None:
    """tau_q = J' tau_p and back, alone and as a batch (000, eq. 5-48)."""
    np.testing.assert_array_equal(REMOTE_DRIVE.joint_torques([5.0, 2.0]), [7.0, 2.0])
    np.testing.assert_array_equal(REMOTE_DRIVE.actuator_torques([7.0, 2.0]), [5.0, 2.0])
    tau = np.random.default_rng(33).normal(size=(20, 2))
    np.testing.assert_allclose(
        REMOTE_DRIVE.actuator_torques(REMOTE_DRIVE.joint_torques(tau)), tau, atol=1e-15)


def test_identity_changes_nothing(dynamics: Dynamics) -> None:
    """The coordinates q themselves give the arm itself."""
    n = len(dynamics.joints)
    seen = TransformedDynamics(dynamics, LinearCoordinates(np.eye(n), names=dynamics.joints))
    q, v, a = states_within_limits(dynamics, 5)
    np.testing.assert_allclose(
        seen.inverse_dynamics(q, v, a), dynamics.inverse_dynamics(q, v, a), atol=1e-12)


# -- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize('arguments', [
    {'jacobian': [[1.0, 0.0]]}, {'jacobian': [1.0, 2.0]}, {'jacobian': [[1.0, 1.0], [2.0, 2.0]]},
    {'jacobian': [[0.0]]}, {'jacobian': [[np.nan, 0.0], [0.0, 1.0]]},
    {'jacobian': [['a', 'b'], ['c', 'd']]}, {'jacobian': [[1.0, 2.0], [3.0]]},
    {'jacobian': EYE, 'offset': [1.0]}, {'jacobian': EYE, 'offset': [np.nan, 0.0]},
    {'jacobian': EYE, 'offset': 'far'}, {'jacobian': EYE, 'names': ('p',)},
], ids=repr)
def test_impossible_linear_coordinates_are_refused(arguments: dict[str, Any]) -> None:
    """J must be square, finite and non-singular; offset and names must fit it."""
    with pytest.raises(InvalidArgumentError):
        LinearCoordinates(**arguments)


def test_coordinates_must_be_as_many_as_joints() -> None:
    """Three joints cannot be seen in two coordinates."""
    with pytest.raises(InvalidArgumentError, match='3 coordinates are needed'):
        TransformedDynamics(load('spatial_3r', 'closed_form'), REMOTE_DRIVE)


def test_vectors_of_wrong_length_are_refused(engine: str) -> None:
    """The error speaks of the coordinates."""
    seen = TransformedDynamics(load('two_link', engine), REMOTE_DRIVE)
    with pytest.raises(InvalidArgumentError, match='p1, p2'):
        seen.mass_matrix([1.0, 2.0, 3.0])
    with pytest.raises(InvalidArgumentError):
        REMOTE_DRIVE.joint_torques([1.0])
    with pytest.raises(InvalidArgumentError):
        REMOTE_DRIVE.actuator_torques([1.0, np.nan])
