# SPDX-License-Identifier: Apache-2.0
"""The structural questions of document 001, answered for its arms and for designs of its kind."""

from __future__ import annotations

import re

import numpy as np
import pytest
from shipped import ENGINES, GRAVITIES, load, states_within_limits, text_of

from ros_lagdyn import Structure, load_dynamics, structure
from ros_lagdyn.dynamics import Dynamics

J1, J2 = ('joint1',), ('joint2',)
J3, J12, J23 = ('joint3',), ('joint1', 'joint2'), ('joint2', 'joint3')
NONE: tuple[str, ...] = ()

# Document 001: M entry by entry, in which joints it varies; the same for g; what couples.
EXPECTED = {
    'cartesian': Structure(
        joints=J12, mass_matrix_varies_with=((NONE, NONE), (NONE, NONE)), coupled=(),
        gravity_varies_with=(NONE, NONE), mass_matrix_constant=True, mass_matrix_diagonal=True,
        coriolis_zero=True, gravity_zero=False),
    'skew_cartesian': Structure(
        joints=J12, mass_matrix_varies_with=((NONE, NONE), (NONE, NONE)), coupled=(J12,),
        gravity_varies_with=(NONE, NONE), mass_matrix_constant=True, mass_matrix_diagonal=False,
        coriolis_zero=True, gravity_zero=False),
    'prismatic_revolute': Structure(
        joints=J12, mass_matrix_varies_with=((NONE, J2), (J2, NONE)), coupled=(J12,),
        gravity_varies_with=(NONE, J2), mass_matrix_constant=False, mass_matrix_diagonal=False,
        coriolis_zero=False, gravity_zero=False),
    'two_link': Structure(
        joints=J12, mass_matrix_varies_with=((J2, J2), (J2, NONE)), coupled=(J12,),
        gravity_varies_with=(J12, J12), mass_matrix_constant=False, mass_matrix_diagonal=False,
        coriolis_zero=False, gravity_zero=False),
    'two_link_remote': Structure(
        joints=J12, mass_matrix_varies_with=((NONE, J12), (J12, NONE)), coupled=(J12,),
        gravity_varies_with=(J1, J2), mass_matrix_constant=False, mass_matrix_diagonal=False,
        coriolis_zero=False, gravity_zero=False),
    'five_bar': Structure(
        joints=J12, mass_matrix_varies_with=((NONE, J12), (J12, NONE)), coupled=(J12,),
        gravity_varies_with=(J1, J2), mass_matrix_constant=False, mass_matrix_diagonal=False,
        coriolis_zero=False, gravity_zero=False),
    'spatial_3r': Structure(
        joints=('joint1', 'joint2', 'joint3'),
        mass_matrix_varies_with=((J23, NONE, NONE), (NONE, J3, J3), (NONE, J3, NONE)),
        coupled=(J23,), gravity_varies_with=(NONE, J23, J23), mass_matrix_constant=False,
        mass_matrix_diagonal=False, coriolis_zero=False, gravity_zero=False),
    'spherical_pendulum': Structure(
        joints=J12, mass_matrix_varies_with=((J2, NONE), (NONE, NONE)), coupled=(),
        gravity_varies_with=(NONE, J2), mass_matrix_constant=False, mass_matrix_diagonal=True,
        coriolis_zero=False, gravity_zero=False),
}


def test_structure_of_every_arm_is_that_of_the_documents(stem: str, dynamics: Dynamics) -> None:
    """Every engine finds the table of 001 for the shipped arms."""
    found = structure(dynamics)
    assert found == EXPECTED[stem]
    assert not found.linear


@pytest.mark.parametrize('seed', range(1, 6))
def test_answers_do_not_depend_on_the_random_states(stem: str, seed: int) -> None:
    """What holds in every pose holds for every seed."""
    assert structure(load(stem, 'closed_form'), seed=seed) == EXPECTED[stem]


def test_without_gravity_only_gravity_changes(stem: str, engine: str) -> None:
    """Without gravity g = 0; where M is constant too the equation is linear (001)."""
    found = structure(load(stem, engine, GRAVITIES['none']))
    expected = EXPECTED[stem]
    assert found.gravity_zero
    assert found.gravity_varies_with == tuple(NONE for _ in found.joints)
    assert found.mass_matrix_varies_with == expected.mass_matrix_varies_with
    assert found.coupled == expected.coupled
    assert found.linear == (stem in ('cartesian', 'skew_cartesian'))


@pytest.mark.parametrize('stem', ['two_link', 'two_link_remote', 'five_bar'])
def test_planar_arm_in_a_horizontal_plane_has_no_gravity_term(stem: str, engine: str) -> None:
    """Gravity along the joint axes does no work: g = 0 (001)."""
    found = structure(load(stem, engine, (0.0, -9.81, 0.0)))
    assert found.gravity_zero
    assert not found.linear
    assert found.mass_matrix_varies_with == EXPECTED[stem].mass_matrix_varies_with


def test_slides_in_a_horizontal_plane_have_no_gravity_term(engine: str) -> None:
    """A Cartesian robot lying on a table is linear."""
    for stem in ('cartesian', 'skew_cartesian'):
        assert structure(load(stem, engine, (0.0, -9.81, 0.0))).linear


# -- designs ---------------------------------------------------------------------------------


def edited(stem: str, link: str, *, com: float | None = None, mass: float | None = None) -> str:
    """Return a shipped URDF with another centre of mass along x, or mass, of one link."""
    return edit(text_of(stem), link, com=com, mass=mass)


def edit(text: str, link: str, *, com: float | None = None, mass: float | None = None) -> str:
    """Return a URDF with another centre of mass along x, or mass, of one link."""
    start = text.index('<inertial>', text.index(f'<link name="{link}">'))
    end = text.index('</inertial>', start)
    inertial = text[start:end]
    if com is not None:
        inertial = re.sub(r'xyz="\S+ 0 0"', f'xyz="{com!r} 0 0"', inertial)
    if mass is not None:
        inertial = re.sub(r'mass value="\S+"', f'mass value="{mass!r}"', inertial)
    return text[:start] + inertial + text[end:]


@pytest.mark.parametrize('stem', ['prismatic_revolute', 'two_link'])
def test_balanced_second_link_makes_the_arm_linear_without_gravity(
        stem: str, engine: str) -> None:
    """With the centre of mass of link 2 on its axis, M is constant (001); g = 0 is up to you."""
    text = edited(stem, 'link2', com=0.0)
    found = structure(load_dynamics(text, engine, GRAVITIES['none']))
    assert found.mass_matrix_constant
    assert found.coriolis_zero
    assert found.linear
    # The slide does not feel a balanced link at all; the elbow still feels its inertia.
    assert found.mass_matrix_diagonal == (stem == 'prismatic_revolute')
    on_earth = structure(load_dynamics(text, engine))
    assert on_earth.mass_matrix_constant
    assert on_earth.linear == (stem == 'prismatic_revolute')  # whose slide is level


# The numbers of urdf/five_bar.urdf.
L_1, L_2, M_3, L_C3, M_4 = 0.5, 0.25, 0.8, 0.2125, 3.0


def decoupled_five_bar() -> str:
    """Return the five-bar with m_3 l_2 l_c3 = m_4 l_1 l_c4, by the place of link 4's mass."""
    return edited('five_bar', 'link4', com=-(M_3 * L_2 * L_C3) / (M_4 * L_1))


def balanced_five_bar() -> str:
    """Return it with counterweights on links 1 and 2 also, so that gravity vanishes."""
    l_c4 = (M_3 * L_2 * L_C3) / (M_4 * L_1)
    m_1, m_2 = 8.0, 4.0
    text = edit(decoupled_five_bar(), 'link1', com=-(M_3 * L_C3 + M_4 * L_1) / m_1, mass=m_1)
    return edit(text, 'link2', com=(M_4 * l_c4 - M_3 * L_2) / m_2, mass=m_2)


def test_five_bar_that_meets_the_design_condition_is_decoupled(engine: str) -> None:
    """m_3 l_2 l_c3 = m_4 l_1 l_c4 makes M constant and diagonal and C = 0 (001)."""
    dynamics = load_dynamics(decoupled_five_bar(), engine)
    found = structure(dynamics)
    assert found.mass_matrix_constant and found.mass_matrix_diagonal and found.coriolis_zero
    assert not found.gravity_zero
    assert found.gravity_varies_with == (J1, J2)
    q, v, _ = states_within_limits(dynamics, 50)
    assert abs(dynamics.coriolis_matrix(q, v)).max() < 1e-14
    M = dynamics.mass_matrix(q)
    np.testing.assert_allclose(M, np.broadcast_to(np.diag(np.diag(M[0])), M.shape), atol=1e-14)


def test_five_bar_with_counterweights_is_linear(engine: str) -> None:
    """With both first moments balanced too, gravity vanishes and each motor is on its own."""
    dynamics = load_dynamics(balanced_five_bar(), engine)
    found = structure(dynamics)
    assert found.gravity_zero
    assert found.linear and found.mass_matrix_diagonal
    q, v, a = states_within_limits(dynamics, 50)
    tau = dynamics.inverse_dynamics(q, v, a)
    M = np.diag(dynamics.mass_matrix(q[0]))
    np.testing.assert_allclose(tau, M * a, rtol=1e-12)


def test_design_conditions_of_the_formula() -> None:
    """The closed form says by its numbers what structure() finds by looking."""
    plain = load('five_bar', 'closed_form').formula.design_conditions
    decoupled = load_dynamics(decoupled_five_bar()).formula.design_conditions
    balanced = load_dynamics(balanced_five_bar()).formula.design_conditions
    assert (plain.decoupled, plain.balanced) == (False, False)
    assert (decoupled.decoupled, decoupled.balanced) == (True, False)
    assert (balanced.decoupled, balanced.balanced) == (True, True)
    np.testing.assert_allclose(plain.coupling, abs(M_3 * L_2 * L_C3 - M_4 * L_1 * 0.21))
    np.testing.assert_allclose(plain.gravity_1, 5 * 0.2 + M_3 * L_C3 + M_4 * L_1)
    np.testing.assert_allclose(plain.gravity_2, abs(2 * 0.0875 + M_3 * L_2 - M_4 * 0.21))


@pytest.mark.parametrize('slip', [1e-6, -1e-6])
def test_a_design_that_misses_by_a_micrometre_is_not_decoupled(engine: str, slip: float) -> None:
    """The answers are exact, not approximate: 1 um of link 4's centre of mass is seen."""
    l_c4 = (M_3 * L_2 * L_C3) / (M_4 * L_1)
    found = structure(load_dynamics(edited('five_bar', 'link4', com=-l_c4 - slip), engine))
    assert not found.mass_matrix_constant
    assert not found.mass_matrix_diagonal
    assert not found.coriolis_zero


def test_slide_along_the_axis_does_not_couple() -> None:
    """A slide along the revolute axis and its lever do not feel each other."""
    text = text_of('prismatic_revolute')
    start = text.index('<axis', text.index('<joint name="joint1"'))
    text = text[:start] + text[start:].replace('xyz="1 0 0"', 'xyz="0 1 0"', 1)
    for engine in ENGINES:
        found = structure(load_dynamics(text, engine))
        assert found.mass_matrix_constant and found.mass_matrix_diagonal
        assert not found.gravity_zero


def test_limits_do_not_hide_what_varies() -> None:
    """Questions are asked of all angles: limits of a thousandth of a radian do not matter."""
    narrow = re.sub(r'<limit lower="\S+" upper="\S+"', '<limit lower="0" upper="0.001"',
                    text_of('spatial_3r'))
    assert structure(load_dynamics(narrow, 'lagrangian')) == EXPECTED['spatial_3r']
