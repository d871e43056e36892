# SPDX-License-Identifier: Apache-2.0
"""Linearity in the parameters: Y theta = tau, in general and for the elbow of document 001."""

from __future__ import annotations

import re

import numpy as np
import pinocchio
import pytest
from random_arms import RANDOM_ARMS, random_tree
from shipped import ENGINES, GRAVITIES, load, states_within_limits, text_of

from ros_lagdyn import (
    InvalidArgumentError,
    LagdynError,
    load_dynamics,
    parameter_vector,
    regressor,
)
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.term_scales import TermScales, relative

Array = np.ndarray
ROUNDING = 1e-13  # some hundred operations on numbers of the size of the scale
CHAINS = ('cartesian', 'prismatic_revolute', 'skew_cartesian', 'spatial_3r',
          'spherical_pendulum', 'two_link')


def assert_linear(dynamics: Dynamics, count: int) -> None:
    """Assert Y theta = tau at random states, relative to how large tau can be."""
    q, v, a = states_within_limits(dynamics, count)
    Y = regressor(dynamics, q, v, a)
    assert Y.shape == (count, len(dynamics.joints), 10 * len(dynamics.arm.bodies))
    error = Y @ parameter_vector(dynamics.arm) - dynamics.inverse_dynamics(q, v, a)
    assert relative(error, TermScales(dynamics).torque(v, a)) <= ROUNDING


# -- the general regressor -------------------------------------------------------------------


@pytest.mark.parametrize('gravity', GRAVITIES)
def test_torque_is_linear_in_the_parameters_of_every_arm(
        stem: str, engine: str, gravity: str) -> None:
    """Y theta = tau for every arm in every engine."""
    assert_linear(load(stem, engine, GRAVITIES[gravity]), 50)


@pytest.mark.parametrize('mechanism', RANDOM_ARMS)
def test_torque_is_linear_in_the_parameters_of_random_arms(mechanism: str) -> None:
    """The same for any numbers, frames and welded links."""
    rng = np.random.default_rng(51)
    for _ in range(5):
        text = RANDOM_ARMS[mechanism](rng)
        for engine in ENGINES:
            assert_linear(load_dynamics(text, engine, rng.uniform(-9.0, 9.0, 3)), 10)


def test_torque_is_linear_in_the_parameters_of_random_trees() -> None:
    """The same for trees with slides and mimic joints."""
    rng = np.random.default_rng(52)
    for joints in (1, 2, 3, 4, 5, 6, 7, 8):
        assert_linear(load_dynamics(random_tree(rng, joints), 'pinocchio'), 10)


def assert_pinocchio_agrees(text: str, dynamics: Dynamics, count: int) -> None:
    """Assert that Y and theta equal Pinocchio's column by column; the arm must be a chain."""
    model = pinocchio.buildModelFromXML(text)
    model.gravity.linear = np.asarray(dynamics.gravity_vector)
    data = model.createData()
    assert list(model.names)[1:] == [body.joint.name for body in dynamics.arm.bodies]
    theta = np.concatenate([inertia.toDynamicParameters() for inertia in list(model.inertias)[1:]])
    np.testing.assert_allclose(
        parameter_vector(dynamics.arm), theta, rtol=1e-12, atol=1e-14 * abs(theta).max())
    for q, v, a in zip(*states_within_limits(dynamics, count), strict=True):
        expected = pinocchio.computeJointTorqueRegressor(model, data, q, v, a)
        np.testing.assert_allclose(
            regressor(dynamics, q, v, a), expected, atol=1e-12 * (1.0 + abs(expected).max()))


@pytest.mark.parametrize('stem', CHAINS)
def test_pinocchio_has_the_same_columns(stem: str) -> None:
    """Y and theta are those of Pinocchio, in its order of parameters."""
    assert_pinocchio_agrees(text_of(stem), load(stem, 'lagrangian'), 10)
    assert_pinocchio_agrees(text_of(stem), load(stem, 'lagrangian', GRAVITIES['tilted']), 10)


@pytest.mark.parametrize('mechanism', CHAINS)
def test_pinocchio_has_the_same_columns_for_random_chains(mechanism: str) -> None:
    """Also where frames are turned, axes skew and links welded together."""
    rng = np.random.default_rng(53)
    for _ in range(5):
        # Pinocchio keeps a continuous angle as two numbers; a revolute one does as well here.
        text = RANDOM_ARMS[mechanism](rng).replace(
            'type="continuous"', 'type="revolute"')
        text = re.sub(r'(<joint name="\S+" type="revolute">(?:(?!</joint>|<limit).)*)</joint>',
                      r'\1<limit lower="-4" upper="4" effort="1" velocity="1"/></joint>', text,
                      flags=re.DOTALL)
        assert_pinocchio_agrees(text, load_dynamics(text, 'lagrangian'), 5)


def test_one_state_and_a_batch(dynamics: Dynamics) -> None:
    """A batch is its states, one by one; Y depends on kinematics, not on the engine."""
    q, v, a = states_within_limits(dynamics, 5)
    batch = regressor(dynamics, q, v, a)
    for index in range(5):
        single = regressor(dynamics, q[index], v[index], a[index])
        assert single.shape == batch.shape[1:]
        np.testing.assert_allclose(single, batch[index], atol=1e-13)


def test_a_changed_mass_is_predicted_linearly(engine: str) -> None:
    """Y of one arm times theta of another one is the other one's torque."""
    heavier = text_of('two_link').replace('<mass value="2"/>', '<mass value="2.7"/>')
    assert heavier != text_of('two_link')
    light, heavy = load('two_link', engine), load_dynamics(heavier, engine)
    q, v, a = states_within_limits(light, 30)
    Y = regressor(light, q, v, a)
    np.testing.assert_allclose(
        Y @ parameter_vector(heavy.arm), heavy.inverse_dynamics(q, v, a), atol=1e-12)
    change = parameter_vector(heavy.arm) - parameter_vector(light.arm)
    # 0.7 kg more at 0.168 m: mass, first moment and moments about the joint; nothing of link 1.
    expected = np.zeros(20)
    expected[[10, 11, 16, 19]] = 0.7, 0.7 * 0.168, 0.7 * 0.168**2, 0.7 * 0.168**2
    np.testing.assert_allclose(change, expected, atol=1e-15)


def test_parameters_of_shipped_elbow() -> None:
    """Ten numbers per link: m, m c, and I about the joint."""
    theta = parameter_vector(load('two_link', 'lagrangian').arm)
    assert theta.shape == (20,)
    np.testing.assert_allclose(theta[:10], [
        5.0, 5 * 0.325, 0.0, 0.0, 0.00442983, 0.0, 0.184629 + 5 * 0.325**2, 0.0, 0.0,
        0.183617 + 5 * 0.325**2])


def test_bad_states_are_refused() -> None:
    """Vectors of wrong length are an InvalidArgumentError."""
    arm = load('two_link', 'closed_form')
    with pytest.raises(InvalidArgumentError):
        regressor(arm, [0.0], [0.0, 0.0], [0.0, 0.0])
    with pytest.raises(InvalidArgumentError):
        arm.minimal_regressor([0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0])


# -- the minimal regressor of the elbow (001) ------------------------------------------------

M_1, L_1, L_C1, I_1 = 5.0, 0.5, 0.325, 0.184629  # of urdf/two_link.urdf
M_2, L_C2, I_2 = 2.0, 0.168, 0.0356858


@pytest.fixture
def elbow() -> Dynamics:
    """Return the elbow by formula."""
    return load('two_link', 'closed_form')


def test_minimal_parameters_are_those_of_the_document(elbow: Dynamics) -> None:
    """Theta_1 to Theta_5 of 001, in the numbers of the shipped URDF."""
    np.testing.assert_allclose(elbow.minimal_parameters, [
        M_1 * L_C1**2 + M_2 * (L_1**2 + L_C2**2) + I_1 + I_2,
        M_2 * L_1 * L_C2,
        M_2 * L_C2**2 + I_2,
        M_1 * L_C1 + M_2 * L_1,
        M_2 * L_C2,
    ], rtol=1e-14)


def test_minimal_regressor_entry_by_entry(elbow: Dynamics) -> None:
    """Y of 001, with the square of the second velocity where the document prints the first."""
    for q, v, a in zip(*states_within_limits(elbow, 20), strict=True):
        c_2, s_2, g = np.cos(q[1]), np.sin(q[1]), 9.81
        expected = np.array([
            [a[0], c_2 * (2 * a[0] + a[1]) - s_2 * (v[1] ** 2 + 2 * v[0] * v[1]), a[1],
             g * np.cos(q[0]), g * np.cos(q[0] + q[1])],
            [0.0, c_2 * a[0] + s_2 * v[0] ** 2, a[0] + a[1], 0.0, g * np.cos(q[0] + q[1])]])
        np.testing.assert_allclose(elbow.minimal_regressor(q, v, a), expected, atol=1e-12)


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('gravity', GRAVITIES)
def test_minimal_regressor_gives_the_torque(engine: str, gravity: str) -> None:
    """Y Theta = tau of every engine."""
    elbow = load('two_link', 'closed_form', GRAVITIES[gravity])
    q, v, a = states_within_limits(elbow, 50)
    Y = elbow.minimal_regressor(q, v, a)
    assert Y.shape == (50, 2, 5)
    np.testing.assert_allclose(
        Y @ elbow.minimal_parameters,
        load('two_link', engine, GRAVITIES[gravity]).inverse_dynamics(q, v, a), atol=1e-12)
    np.testing.assert_allclose(elbow.minimal_regressor(q[0], v[0], a[0]), Y[0], atol=1e-13)


def stacked_rank(Y: Array) -> int:
    """Return the rank of all rows of Y together."""
    return int(np.linalg.matrix_rank(Y.reshape(-1, Y.shape[-1]), tol=1e-9 * abs(Y).max()))


def test_columns_of_the_minimal_regressor_are_independent(elbow: Dynamics) -> None:
    """Over many states Y of 001 has rank 5: no column repeats others."""
    assert stacked_rank(elbow.minimal_regressor(*states_within_limits(elbow, 200))) == 5


def test_rank_of_the_general_regressor_of_an_elbow(elbow: Dynamics) -> None:
    """Of the 20 numbers of two links, 6 combinations count in the plane.

    They are the moment of inertia and the two first moments of each link, m_2 being felt as a
    part of link 1.
    """
    assert stacked_rank(regressor(elbow, *states_within_limits(elbow, 200))) == 6


def beside_the_line(height: float) -> str:
    """Return the elbow with the centre of mass of link 1 beside its line."""
    return text_of('two_link').replace('xyz="0.325 0 0"', f'xyz="0.325 0 {height!r}"')


def test_centre_of_mass_beside_the_line_is_a_sixth_parameter() -> None:
    """Theta_6 = m_1 h_1 joins in, and only then."""
    elbow = load_dynamics(beside_the_line(0.02))
    assert elbow.minimal_parameters.shape == (6,)
    np.testing.assert_allclose(abs(elbow.minimal_parameters[5]), M_1 * 0.02, rtol=1e-12)
    q, v, a = states_within_limits(elbow, 200)
    Y = elbow.minimal_regressor(q, v, a)
    assert Y.shape == (200, 2, 6)
    assert stacked_rank(Y) == 6
    for engine in ENGINES:
        np.testing.assert_allclose(
            Y @ elbow.minimal_parameters,
            load_dynamics(beside_the_line(0.02), engine).inverse_dynamics(q, v, a), atol=1e-12)


@pytest.mark.parametrize('rpy', ['0.3 0.2 0.1', '0 0.7853981633974483 0', '1 2 3'])
def test_turning_the_frames_leaves_five_parameters(rpy: str) -> None:
    """A centre of mass on the line stays on it however the arm is mounted: rounding is no h_1."""
    text = text_of('two_link').replace(
        '<origin xyz="0 0 0.6" rpy="0 0 0"/>', f'<origin xyz="0 0 0.6" rpy="{rpy}"/>')
    assert text != text_of('two_link')
    elbow = load_dynamics(text)
    assert elbow.minimal_parameters.shape == (5,)
    q, v, a = states_within_limits(elbow, 20)
    assert elbow.minimal_regressor(q, v, a).shape == (20, 2, 5)


def test_minimal_regressor_of_random_elbows() -> None:
    """Y Theta = tau whatever the axes, signs and offsets of the joints."""
    rng = np.random.default_rng(54)
    for _ in range(20):
        elbow = load_dynamics(RANDOM_ARMS['two_link'](rng), 'closed_form', rng.uniform(-9, 9, 3))
        q, v, a = states_within_limits(elbow, 10)
        error = (elbow.minimal_regressor(q, v, a) @ elbow.minimal_parameters
                 - elbow.inverse_dynamics(q, v, a))
        assert relative(error, TermScales(elbow).torque(v, a)) <= ROUNDING


@pytest.mark.parametrize('stem', ['two_link_remote', 'five_bar', 'spatial_3r', 'cartesian'])
def test_other_mechanisms_have_no_minimal_regressor(stem: str) -> None:
    """The error says which mechanism it is, and what to use instead."""
    dynamics = load(stem, 'closed_form')
    zero = np.zeros(len(dynamics.joints))
    with pytest.raises(LagdynError, match=f'"{stem}" has no minimal regressor'):
        dynamics.minimal_regressor(zero, zero, zero)
    with pytest.raises(LagdynError, match='regressor'):
        _ = dynamics.minimal_parameters
