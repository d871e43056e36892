# SPDX-License-Identifier: Apache-2.0
"""The contract of every engine: shapes, ownership, inverse and forward dynamics, frames."""

from __future__ import annotations

import subprocess
import sys
from typing import get_type_hints

import numpy as np
import pytest
from random_arms import random_tree
from shipped import ENGINES, SEED, SHIPPED, load, states_within_limits, text_of

from ros_lagdyn.dynamics import (
    EARTH_GRAVITY,
    LEAST_RECIPROCAL_CONDITION,
    Dynamics,
    Terms,
    load_dynamics,
)
from ros_lagdyn.errors import SingularMassMatrixError, UnrecognisedMechanismError

EPS = np.finfo(float).eps
METHODS = {  # name: (arguments, shape of the result after the batch's axis)
    'mass_matrix': ('q', 'nn'),
    'coriolis_matrix': ('qv', 'nn'),
    'gravity': ('q', 'n'),
    'kinetic_energy': ('qv', ''),
    'potential_energy': ('q', ''),
    'inverse_dynamics': ('qva', 'n'),
    'forward_dynamics': ('qva', 'n'),
}


@pytest.fixture(params=METHODS)
def method(request):
    """Return the name of one method of the contract."""
    return request.param


def call(dynamics: Dynamics, method: str, states, pick=slice(None)):
    """Call a method with the picked states; accelerations serve as torques."""
    letters, _ = METHODS[method]
    by_letter = dict(zip('qva', states, strict=True))
    return getattr(dynamics, method)(*(by_letter[letter][pick] for letter in letters))


def shape(dynamics: Dynamics, method: str) -> tuple[int, ...]:
    return tuple(len(dynamics.joints) for _ in METHODS[method][1])


# -- shapes ----------------------------------------------------------------------------------


def test_a_batch_gives_a_batch(dynamics, states, method):
    """N states give N results, float64, in the order of the states."""
    result = call(dynamics, method, states)
    assert result.shape == (50, *shape(dynamics, method))
    assert result.dtype == np.float64
    assert np.isfinite(result).all()


def test_one_state_gives_one_result(dynamics, states, method):
    """A vector gives a vector, matrix or float, without the batch's axis."""
    result = call(dynamics, method, states, 0)
    if METHODS[method][1]:
        assert isinstance(result, np.ndarray)
        assert result.shape == shape(dynamics, method)
        assert result.dtype == np.float64
    else:
        assert type(result) is float


def test_a_batch_of_one_is_a_batch(dynamics, states, method):
    """One state in a batch of one keeps the batch's axis."""
    result = call(dynamics, method, states, slice(1))
    assert result.shape == (1, *shape(dynamics, method))


def test_no_states_give_no_results(dynamics, states, method):
    """An empty batch is a batch: nothing in, nothing out, and no error."""
    result = call(dynamics, method, states, slice(0))
    assert result.shape == (0, *shape(dynamics, method))
    assert result.dtype == np.float64


def test_no_states_give_no_terms_and_no_frames(dynamics):
    """All terms and Jacobians of an empty batch have the right shapes too."""
    n = len(dynamics.joints)
    nothing = np.empty((0, n))
    assert [term.shape for term in dynamics.all_terms(nothing, nothing)] == [
        (0, n, n), (0, n, n), (0, n)]
    for frame in dynamics.arm.frames:
        assert dynamics.frame_jacobian(nothing, frame).shape == (0, 6, n)
        assert dynamics.frame_rotation(nothing, frame).shape == (0, 3, 3)


def test_lists_integers_and_single_precision_are_taken(dynamics):
    """Whatever numpy understands as real numbers is a state, computed in double precision."""
    n = len(dynamics.joints)
    expected = dynamics.inverse_dynamics(np.ones(n), np.ones(n), np.ones(n))
    for ones in ([1] * n, (1.0,) * n, np.ones(n, dtype=int), np.ones(n, dtype=np.float32),
                 np.ones(n, dtype=np.longdouble), np.ones((n, 2))[:, 0], [True] * n):
        result = dynamics.inverse_dynamics(ones, ones, ones)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, expected, rtol=16 * EPS, atol=64 * EPS)


def test_a_vector_beside_a_batch_serves_each_state(dynamics, states):
    """One velocity for many positions is repeated."""
    q, v, a = states
    repeated = np.broadcast_to(v[0], v.shape)
    np.testing.assert_array_equal(
        dynamics.coriolis_matrix(q, v[0]), dynamics.coriolis_matrix(q, repeated))
    np.testing.assert_array_equal(
        dynamics.inverse_dynamics(q, v[0], a), dynamics.inverse_dynamics(q, repeated, a))


def test_results_do_not_depend_on_the_layout_of_memory(dynamics, states):
    """Transposed, strided and read-only arrays are the same states."""
    q, v, a = states
    expected = dynamics.inverse_dynamics(q, v, a)
    column_major = [np.asfortranarray(part) for part in states]
    strided = [np.repeat(part, 2, axis=0)[::2] for part in states]
    for part in (locked := [part.copy() for part in states]):
        part.flags.writeable = False
    for layout in (column_major, strided, locked):
        np.testing.assert_array_equal(dynamics.inverse_dynamics(*layout), expected)


# -- ownership -------------------------------------------------------------------------------


@pytest.mark.parametrize('method', [name for name, (_, axes) in METHODS.items() if axes])
def test_results_belong_to_the_caller(dynamics, states, method):
    """Overwriting a result does not change the next one, nor does the next one overwrite it."""
    for pick in (slice(None), 0):
        first = call(dynamics, method, states, pick)
        assert first.flags.writeable
        expected = first.copy()
        second = call(dynamics, method, states, pick)
        assert not np.shares_memory(first, second)
        first[...] = -7.0
        np.testing.assert_array_equal(second, expected)
        np.testing.assert_array_equal(call(dynamics, method, states, pick), expected)
        call(dynamics, method, states, -1)
        np.testing.assert_array_equal(second, expected)


def test_terms_belong_to_the_caller(dynamics, states):
    """The three terms of one call do not overlap each other or those of the next call."""
    q, v, _ = states
    for args in ((q, v), (q[0], v[0])):
        terms, again = dynamics.all_terms(*args), dynamics.all_terms(*args)
        assert isinstance(terms, Terms)
        arrays = [*terms, *again]
        for index, array in enumerate(arrays):
            assert array.flags.writeable
            assert not any(np.shares_memory(array, other) for other in arrays[index + 1:])
        expected = [array.copy() for array in again]
        for array in terms:
            array[...] = -7.0
        for array, value in zip(dynamics.all_terms(*args), expected, strict=True):
            np.testing.assert_array_equal(array, value)


def test_frames_belong_to_the_caller(dynamics, states):
    """Jacobians and rotations may be overwritten, also those of the base."""
    for frame in dynamics.arm.frames:
        for method in (dynamics.frame_jacobian, dynamics.frame_rotation):
            for q in (states.q[:3], states.q[0]):
                result = method(q, frame)
                expected = result.copy()
                result[...] = -7.0
                np.testing.assert_array_equal(method(q, frame), expected)


def test_arguments_are_not_changed(dynamics, states, method):
    """What goes in stays as it is."""
    copies = [part.copy() for part in states]
    for pick in (slice(None), 0):
        call(dynamics, method, states, pick)
    for part, copy in zip(states, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_two_arms_of_one_text_share_nothing(engine):
    """A second arm, with other gravity, does not disturb the first."""
    q = [0.3, 0.4]
    first = load_dynamics(text_of('two_link'), engine)
    before = first.gravity(q)
    second = load_dynamics(text_of('two_link'), engine, (0.0, 0.0, 9.81))
    np.testing.assert_allclose(second.gravity(q), -before, rtol=16 * EPS)
    np.testing.assert_array_equal(first.gravity(q), before)


def test_gravity_is_the_callers_to_keep(engine):
    """The vector given is copied, the vector returned is read-only."""
    down = np.array(EARTH_GRAVITY)
    arm = load_dynamics(text_of('two_link'), engine, down)
    before = arm.gravity([0.3, 0.4])
    down[:] = 0.0
    np.testing.assert_array_equal(arm.gravity([0.3, 0.4]), before)
    np.testing.assert_array_equal(arm.gravity_vector, EARTH_GRAVITY)
    with pytest.raises(ValueError, match='read-only'):
        arm.gravity_vector[0] = 1.0


# -- terms -----------------------------------------------------------------------------------


def test_every_engine_names_itself_and_its_joints(dynamics, stem, engine):
    """The engine is the one asked for, the joints are the motors in tree order."""
    assert dynamics.engine == engine
    assert dynamics.joints == tuple(f'joint{i + 1}' for i in range(len(dynamics.joints)))
    assert dynamics.arm.name == stem


def test_the_formula_is_the_default_engine_and_earth_the_default_gravity():
    """load_dynamics(urdf) is the textbook on Earth."""
    arm = load_dynamics(text_of('two_link'))
    assert arm.engine == 'closed_form'
    np.testing.assert_array_equal(arm.gravity_vector, [0.0, 0.0, -9.81])


def test_mass_matrices_are_symmetric_and_positive(dynamics, states):
    """M is symmetric to rounding and has positive eigenvalues within the limits."""
    M = dynamics.mass_matrix(states.q)
    np.testing.assert_allclose(M, np.swapaxes(M, 1, 2), rtol=0.0, atol=16 * EPS * abs(M).max())
    assert np.all(np.linalg.eigvalsh(M)[:, 0] > -16 * EPS * abs(M).max())


def test_inverse_dynamics_is_the_sum_of_its_terms(dynamics, states):
    """Torques are M a + C v + g, also where an engine computes it at once."""
    q, v, a = states
    M, C, g = dynamics.all_terms(q, v)
    parts = [np.einsum('nij,nj->ni', M, a), np.einsum('nij,nj->ni', C, v), g]
    scale = sum(abs(part) for part in parts).max(axis=0)
    np.testing.assert_allclose(
        (dynamics.inverse_dynamics(q, v, a) - sum(parts)) / scale, 0.0, atol=256 * EPS)


def test_energies_are_those_of_the_terms(dynamics, states):
    """T = v' M v / 2, and U is 0 where all mass is at the origin: -sum m g . r."""
    q, v, _ = states
    M = dynamics.mass_matrix(q)
    T = 0.5 * np.einsum('ni,nij,nj->n', v, M, v)
    np.testing.assert_allclose(dynamics.kinetic_energy(q, v), T, rtol=0.0,
                               atol=64 * EPS * T.max())
    assert dynamics.kinetic_energy(q[0], np.zeros_like(v[0])) == 0.0


def test_the_arm_held_up_carries_its_weight(engine):
    """Gravity stands on the left: a stretched elbow needs a positive torque, m g r."""
    arm = load('two_link', engine)
    np.testing.assert_allclose(
        arm.gravity([0.0, 0.0]),
        9.81 * np.array([5.0 * 0.325 + 2.0 * (0.5 + 0.168), 2.0 * 0.168]), rtol=16 * EPS)
    heights = 5.0 * 0.6 + 2.0 * 0.6
    np.testing.assert_allclose(arm.potential_energy([0.0, 0.0]), 9.81 * heights, rtol=16 * EPS)


def test_forward_dynamics_undoes_inverse_dynamics(dynamics, states):
    """The acceleration that tau causes is the one that tau was computed for."""
    q, v, a = states
    M = dynamics.mass_matrix(q)
    tau = dynamics.inverse_dynamics(q, v, a)
    found = dynamics.forward_dynamics(q, v, tau)
    bias = abs(dynamics.inverse_dynamics(q, v, np.zeros_like(a)))
    # The solution is off by the rounding of tau, enlarged by the inverse of M.
    error = 64 * EPS * np.einsum('nij,nj->ni', abs(np.linalg.inv(M)),
                                 np.einsum('nij,nj->ni', abs(M), abs(a)) + abs(tau) + bias)
    assert np.all(abs(found - a) <= error)


def test_an_arm_let_go_falls(engine):
    """Without torque a stretched elbow accelerates downwards."""
    a = load('two_link', engine).forward_dynamics([0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert a[0] < 0.0


# -- where the mass matrix loses rank --------------------------------------------------------

# Within the joint limits of the shipped pendulum, at its pole straight down, and upside down.
POLES = [0.0, np.pi, -np.pi, 1e-8, np.pi - 1e-8]


@pytest.mark.parametrize('theta', POLES)
def test_the_pole_of_the_pendulum_is_an_error(engine, theta):
    """No torque about the vertical accelerates a pendulum that hangs straight down."""
    arm = load('spherical_pendulum', engine)
    with pytest.raises(SingularMassMatrixError, match='singular') as caught:
        arm.forward_dynamics([0.3, theta], [0.1, 0.2], [0.0, 0.0])
    assert caught.value.state is None
    assert abs(caught.value.reciprocal_condition) < LEAST_RECIPROCAL_CONDITION
    assert 'batch' not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize('theta', POLES)
def test_the_error_says_which_state_of_a_batch(engine, theta):
    """One singular state of many is found and named."""
    arm = load('spherical_pendulum', engine)
    q = np.column_stack([np.linspace(-1.0, 1.0, 7), np.linspace(0.5, 1.5, 7)])
    q[4, 1] = theta
    zero = np.zeros_like(q)
    with pytest.raises(SingularMassMatrixError, match='state 4 of the batch') as caught:
        arm.forward_dynamics(q, zero, zero)
    assert caught.value.state == 4
    # All other terms exist at the pole.
    for terms in (arm.all_terms(q, zero), [arm.inverse_dynamics(q, zero, zero)]):
        assert all(np.isfinite(term).all() for term in terms)


@pytest.mark.parametrize('theta', [1e-3, -1e-3, np.pi - 1e-3, 1e-2])
def test_near_the_pole_forward_dynamics_is_right(engine, theta):
    """A milliradian beside the pole all engines give the pendulum's equation of motion."""
    arm = load('spherical_pendulum', engine)
    m, l, g = 1.5, 0.6, 9.81  # noqa: E741
    phi_rate, theta_rate = 0.7, -0.4
    tau = np.array([1e-6, 0.2])
    J, s, c = m * l**2, np.sin(theta), np.cos(theta)
    expected = np.array([
        (tau[0] - 2.0 * J * s * c * phi_rate * theta_rate) / (J * s**2),
        (tau[1] + J * s * c * phi_rate**2 - m * g * l * s) / J])
    found = arm.forward_dynamics([0.3, theta], [phi_rate, theta_rate], tau)
    # Rounding of M_11 = J s^2 and of the torque about the vertical is relative to J and its
    # rates, and is divided by s^2.
    atol = 64 * EPS * np.array([(1.0 + abs(expected[0])) / s**2, 1.0 + abs(expected[1])])
    assert np.all(abs(found - expected) <= atol)


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_a_point_mass_on_its_own_axis_is_singular(engine):
    """An arm of one joint that turns a point on its axis has M = 0: an error, not a warning."""
    arm = load_dynamics(
        '<robot name="point"><link name="base"/><link name="link"><inertial><origin xyz="1 0 0"/>'
        '<mass value="1"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'
        '</link><joint name="joint" type="continuous"><parent link="base"/><child link="link"/>'
        '</joint></robot>', engine)
    np.testing.assert_array_equal(arm.mass_matrix([0.1]), [[0.0]])
    with pytest.raises(SingularMassMatrixError):
        arm.forward_dynamics([0.1], [0.0], [1.0])


# -- frames ----------------------------------------------------------------------------------


def test_angular_jacobians_are_rates_of_rotations(dynamics):
    """J_w v is how a frame turns: [J_w v] = R' R^T, by central differences."""
    step = EPS ** (1 / 3)  # optimal for a central difference; its error is of the order step^2
    q = states_within_limits(dynamics, 5).q
    for frame in dynamics.arm.frames:
        R = dynamics.frame_rotation(q, frame)
        np.testing.assert_allclose(R @ np.swapaxes(R, 1, 2), np.broadcast_to(
            np.eye(3), R.shape), rtol=0.0, atol=32 * EPS)
        J = dynamics.frame_jacobian(q, frame)
        for joint, unit in enumerate(np.eye(len(dynamics.joints))):
            rate = (dynamics.frame_rotation(q + step * unit, frame)
                    - dynamics.frame_rotation(q - step * unit, frame)) / (2.0 * step)
            spin = rate @ np.swapaxes(R, 1, 2)
            w = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], axis=1)
            np.testing.assert_allclose(w, J[:, 3:, joint], rtol=0.0, atol=100 * step**2)


def test_linear_jacobians_are_derivatives_of_positions(dynamics):
    """Column i of J_v changes with joint j as column j changes with joint i."""
    step = EPS ** (1 / 3)
    q = states_within_limits(dynamics, 5).q
    units = np.eye(len(dynamics.joints))
    for frame in dynamics.arm.frames:
        change = np.array([
            dynamics.frame_jacobian(q + step * unit, frame)[:, :3]
            - dynamics.frame_jacobian(q - step * unit, frame)[:, :3] for unit in units])
        second = change / (2.0 * step)  # [joint i, state, axis, joint j]
        np.testing.assert_allclose(
            second, np.swapaxes(second, 0, 3), rtol=0.0, atol=100 * step**2)


def test_the_tip_of_the_stretched_elbow_moves_up(engine):
    """At q = 0 joint 1 lifts the tip at 0.9 m/s per rad/s, joint 2 at 0.4."""
    J = load('two_link', engine).frame_jacobian([0.0, 0.0], 'tool0')
    expected = np.zeros((6, 2))
    expected[2] = [0.9, 0.4]
    expected[4] = [-1.0, -1.0]
    np.testing.assert_allclose(J, expected, rtol=0.0, atol=4 * EPS)


def test_the_root_does_not_move(dynamics, states):
    """The Jacobian of the root link is 0, its rotation the identity, in every engine."""
    assert not dynamics.frame_jacobian(states.q, 'base_link').any()
    np.testing.assert_array_equal(
        dynamics.frame_rotation(states.q, 'base_link'), np.broadcast_to(np.eye(3), (50, 3, 3)))


@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_one_joint_is_an_arm(engine):
    """An arm of one joint keeps its axes: (1, 1), (6, 1) and so on."""
    arm = load_dynamics(random_tree(np.random.default_rng(SEED), 1), engine)
    assert arm.mass_matrix([0.3]).shape == (1, 1)
    assert arm.mass_matrix([[0.3], [0.4]]).shape == (2, 1, 1)
    assert arm.coriolis_matrix([0.3], [0.1]).shape == (1, 1)
    assert arm.gravity([0.3]).shape == (1,)
    assert arm.inverse_dynamics([0.3], [0.1], [0.2]).shape == (1,)
    assert arm.forward_dynamics([0.3], [0.1], [0.2]).shape == (1,)
    for frame in arm.arm.frames:
        assert arm.frame_jacobian([0.3], frame).shape == (6, 1)
        assert arm.frame_jacobian([[0.3], [0.4]], frame).shape == (2, 6, 1)


# -- the contract itself ---------------------------------------------------------------------


def test_every_engine_fulfils_the_contract():
    """All engines are Dynamics, and each public method has types and a docstring."""
    for engine in ENGINES:
        arm = load('two_link', engine)
        assert isinstance(arm, Dynamics)
        for name in METHODS:
            function = getattr(type(arm), name)
            assert function.__doc__
            assert 'return' in get_type_hints(function)


def test_an_engine_is_loaded_only_when_it_is_asked_for():
    """A user of the formulas needs no Pinocchio."""
    code = ('import sys; from ros_lagdyn import load_dynamics; '
            f'load_dynamics({text_of("two_link")!r}).mass_matrix([0.1, 0.2]); '
            'print("pinocchio" in sys.modules)')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          check=True, timeout=60)
    assert done.stdout.strip() == 'False'


def test_there_are_three_engines_and_eight_arms():
    """What the issue names is what there is."""
    assert ENGINES == ('closed_form', 'lagrangian', 'pinocchio')
    assert len(SHIPPED) == 8


def test_a_seven_joint_arm_has_no_formula_but_two_engines():
    """The general engines compute any tree."""
    text = random_tree(np.random.default_rng(SEED), 7, mimic=False)
    with pytest.raises(UnrecognisedMechanismError):
        load_dynamics(text, 'closed_form')
    for engine in ('lagrangian', 'pinocchio'):
        assert load_dynamics(text, engine).mass_matrix(np.zeros(7)).shape == (7, 7)
