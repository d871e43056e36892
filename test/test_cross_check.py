# SPDX-License-Identifier: Apache-2.0
"""The comparison of two engines: meaningful where terms vanish, consistent in units."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from random_arms import RANDOM_ARMS, random_tree
from shipped import ENGINES, GRAVITIES, load, states_within_limits, text_of

from ros_lagdyn import (
    CrossCheck,
    Disagreement,
    InvalidArgumentError,
    cross_check,
    load_dynamics,
    random_states,
)
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.kinematics import Kinematics
from ros_lagdyn.term_scales import TermScales, relative

Array = np.ndarray
EPS = np.finfo(float).eps
ROUNDING = 1e-13  # some hundred operations on numbers of the size of the scale
TERMS = ('mass_matrix', 'coriolis', 'gravity', 'torque')
NOTHING = Disagreement(mass_matrix=0.0, coriolis=0.0, gravity=0.0, torque=0.0)


class Altered(Dynamics):
    """An engine whose results are those of another one, multiplied and added to."""

    engine = 'altered'

    def __init__(self, true: Dynamics, *, factor: float = 1.0, **added: Any) -> None:
        super().__init__(true.arm, true.gravity_vector)
        self.true = true
        self.factor = factor
        self.added = added

    def _alter(self, term: str, value: Array) -> Array:
        return self.factor * value + self.added.get(term, 0.0)

    def _mass_matrix(self, q: Array) -> Array:
        return self._alter('mass_matrix', self.true.mass_matrix(q))

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        return self._alter('coriolis', self.true.coriolis_matrix(q, v))

    def _gravity(self, q: Array) -> Array:
        return self._alter('gravity', self.true.gravity(q))

    def _potential_energy(self, q: Array) -> Array:
        return np.asarray(self.true.potential_energy(q))


# -- what it reports -------------------------------------------------------------------------


@pytest.mark.parametrize('gravity', GRAVITIES)
@pytest.mark.parametrize('engines', tuple(combinations(ENGINES, 2)), ids='-'.join)
def test_engines_differ_by_rounding_only(
        stem: str, engines: tuple[str, str], gravity: str) -> None:
    """Every pair of engines agrees on every term, whichever way gravity points."""
    first, second = (load(stem, engine, GRAVITIES[gravity]) for engine in engines)
    found = cross_check(first, second, *states_within_limits(first, 50))
    assert found.worst <= ROUNDING


def test_an_engine_agrees_with_itself_exactly(dynamics: Dynamics) -> None:
    """Nothing differs from itself, also where a term is 0 everywhere."""
    assert cross_check(dynamics, dynamics, *states_within_limits(dynamics, 5)) == NOTHING


@pytest.mark.parametrize('error', [1e-12, 1e-6, 1e-2])
def test_a_relative_error_is_found_in_every_term(stem: str, error: float) -> None:
    """An engine that is too large by a factor disagrees by about that factor in each term."""
    true = load(stem, 'lagrangian')
    found = cross_check(true, Altered(true, factor=1.0 + error), *states_within_limits(true, 50))
    constant_mass_matrix = stem in ('cartesian', 'skew_cartesian')
    for term in TERMS:
        if term == 'coriolis' and constant_mass_matrix:
            assert found.coriolis == 0.0
        else:
            # The scale is how large a term can be: never less than it is, seldom ten times more.
            assert 0.01 * error < getattr(found, term) <= error * (1.0 + 1e-3)


def test_order_of_the_engines_does_not_matter(stem: str) -> None:
    """The scale is that of the arm, which both engines share."""
    one, two = load(stem, 'closed_form'), load(stem, 'pinocchio')
    states = states_within_limits(one, 10)
    assert cross_check(one, two, *states) == cross_check(two, one, *states)


def test_a_batch_gives_the_worst_of_its_states(stem: str) -> None:
    """Single states and a batch of them are measured alike."""
    one, two = load(stem, 'lagrangian'), load(stem, 'pinocchio')
    states = states_within_limits(one, 20)
    compare = CrossCheck(one, two)
    single = [compare(q, v, a) for q, v, a in zip(*states, strict=True)]
    batch = compare(*states)
    for term in TERMS:
        worst = max(getattr(found, term) for found in single)
        np.testing.assert_allclose(getattr(batch, term), worst, rtol=0.0, atol=10 * EPS)


def test_worst_is_the_largest_term() -> None:
    """The summary is the largest of the four."""
    found = Disagreement(mass_matrix=1.0, coriolis=4.0, gravity=3.0, torque=2.0)
    assert found.worst == 4.0


# -- where a term vanishes -------------------------------------------------------------------


def test_upright_arm_where_gravity_vanishes() -> None:
    """Rounding of cos(pi/2) is not a disagreement of 100 %."""
    q = np.array([np.pi / 2, 0.0])
    for one, two in combinations((load('two_link', engine) for engine in ENGINES), 2):
        assert abs(one.gravity(q)).max() < 1e-13
        assert cross_check(one, two, q, np.zeros(2), np.zeros(2)).worst <= ROUNDING


def test_an_error_shows_at_full_size_where_the_term_vanishes() -> None:
    """At a pose without gravity torque, an error of 1 % of the possible torque shows as 1 %."""
    true = load('two_link', 'closed_form')
    size = TermScales(true).gravity()
    found = cross_check(true, Altered(true, gravity=0.01 * size), np.array([np.pi / 2, 0.0]),
                        np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(found.gravity, 0.01, rtol=1e-9)
    np.testing.assert_allclose(found.torque, 0.01, rtol=1e-9)
    assert found.mass_matrix == 0.0


def test_arm_at_rest(stem: str) -> None:
    """At rest C is 0 in every engine, and nothing is divided by it."""
    for one, two in combinations((load(stem, engine) for engine in ENGINES), 2):
        q, v, a = states_within_limits(one, 5)
        found = cross_check(one, two, q, 0.0 * v, 0.0 * a)
        assert found.coriolis == 0.0
        assert found.worst <= ROUNDING


def test_a_coriolis_matrix_at_rest_is_a_disagreement() -> None:
    """C must be 0 at rest; one that is not is wrong by any measure."""
    true = load('two_link', 'closed_form')
    found = cross_check(true, Altered(true, coriolis=1e-9), np.zeros(2), np.zeros(2), np.zeros(2))
    assert found.coriolis == np.inf


def test_horizontal_slide_without_gravity_force() -> None:
    """The force on a horizontal slide is 0; the scale is the weight that it carries."""
    true = load('cartesian', 'closed_form')
    weight = 6.5 * 9.81  # [N], of carriage and ram
    found = cross_check(true, Altered(true, gravity=np.array([0.01 * weight, 0.0])),
                        np.zeros(2), np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(found.gravity, 0.01, rtol=1e-9)


def test_without_gravity_an_engine_with_gravity_is_wrong() -> None:
    """Where there is no gravity at all, any gravity torque is infinitely wrong."""
    floating = load('two_link', 'closed_form', GRAVITIES['none'])
    standing = load('two_link', 'lagrangian')
    found = cross_check(floating, standing, np.zeros(2), np.zeros(2), np.zeros(2))
    assert found.gravity == np.inf
    assert found.mass_matrix <= ROUNDING


# -- units -----------------------------------------------------------------------------------

WRIST_BEHIND_SLIDE = """
<robot name="wrist_behind_slide">
  <link name="base"/>
  <joint name="slide" type="prismatic">
    <parent link="base"/><child link="carriage"/><axis xyz="1 0 0"/>
    <limit lower="-2" upper="2" effort="1e5" velocity="2"/>
  </joint>
  <link name="carriage">
    <inertial><mass value="1000"/>
      <inertia ixx="100" ixy="0" ixz="0" iyy="100" iyz="0" izz="100"/></inertial>
  </link>
  <joint name="wrist" type="revolute">
    <parent link="carriage"/><child link="hand"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="5"/>
  </joint>
  <link name="hand">
    <inertial><origin xyz="0.005 0 0"/><mass value="{mass}"/>
      <inertia ixx="{inertia}" ixy="0" ixz="0" iyy="{inertia}" iyz="0" izz="{inertia}"/></inertial>
  </link>
</robot>"""


def wrist(engine: str, *, mass: float = 0.02, inertia: float = 1e-6) -> Dynamics:
    """Return a hand of 20 g on a slide of a ton."""
    return load_dynamics(WRIST_BEHIND_SLIDE.format(mass=mass, inertia=inertia), engine)


@pytest.mark.parametrize('engine', ENGINES)
def test_a_tiny_wrist_is_not_drowned_by_a_heavy_slide(engine: str) -> None:
    """An error of 1 % in the wrist's own inertia shows as a tenth of that or more, not as 1e-8."""
    q, v, a = np.zeros(2), np.zeros(2), np.array([0.0, 10.0])
    found = cross_check(wrist(engine), wrist(engine, inertia=1.01e-6), q, v, a)
    own_share = 1e-6 / (1e-6 + 0.02 * 0.005**2)  # of the inertia about the joint
    assert 0.001 * own_share < found.mass_matrix <= 0.01 * own_share
    assert found.gravity == 0.0


@pytest.mark.parametrize('engine', ENGINES)
def test_a_light_hand_is_not_drowned_by_a_heavy_slide(engine: str) -> None:
    """1 % of the hand's mass shows in gravity as a tenth of that or more."""
    q, v, a = np.zeros(2), np.zeros(2), np.zeros(2)
    found = cross_check(wrist(engine), wrist(engine, mass=0.0202), q, v, a)
    assert 0.001 < found.gravity <= 0.01
    assert found.mass_matrix > 1e-4


def test_units_of_the_scales() -> None:
    """With lengths in millimetres each scale changes by exactly the factor of its unit."""
    in_metres = TermScales(load_dynamics(WRIST_BEHIND_SLIDE.format(mass=0.02, inertia=1e-6),
                                         'lagrangian'))
    text = WRIST_BEHIND_SLIDE.format(mass=0.02, inertia=1.0)  # kg mm^2
    for old, new in (('"100"', '"1e8"'), ('0.005 0 0', '5 0 0'), ('"-2" upper="2"',
                                                                 '"-2000" upper="2000"')):
        text = text.replace(old, new)
    in_millimetres = TermScales(load_dynamics(text, 'lagrangian', (0.0, 0.0, -9810.0)))
    unit = np.array([1.0, 1000.0])  # a slide's force is in N m^0, a wrist's torque in N m
    np.testing.assert_allclose(in_millimetres.S, in_metres.S * np.outer(unit, unit), rtol=1e-12)
    np.testing.assert_allclose(in_millimetres.G, in_metres.G * unit * 1000.0, rtol=1e-12)


# -- bounds ----------------------------------------------------------------------------------


def assert_scales_bound(dynamics: Dynamics, q: Array) -> None:
    scales = TermScales(dynamics)
    assert (abs(dynamics.mass_matrix(q)) <= scales.S * (1.0 + 1e-12)).all()
    assert (abs(dynamics.gravity(q)) <= scales.G * (1.0 + 1e-12)).all()


@pytest.mark.parametrize('gravity', GRAVITIES)
def test_scales_bound_the_terms_of_shipped_arms(stem: str, gravity: str) -> None:
    """|M_ij| <= S_ij and |g_i| <= G_i within the joint limits, and S, G are not idle."""
    dynamics = load(stem, 'lagrangian', GRAVITIES[gravity])
    q = states_within_limits(dynamics, 500).q
    assert_scales_bound(dynamics, q)
    scales = TermScales(dynamics)
    largest = abs(dynamics.mass_matrix(q)).max(axis=0)
    assert (np.diag(largest) >= 0.05 * np.diag(scales.S)).all()


@pytest.mark.parametrize('mechanism', RANDOM_ARMS)
def test_scales_bound_the_terms_of_random_arms(mechanism: str) -> None:
    """The same for any numbers of each mechanism."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        dynamics = load_dynamics(RANDOM_ARMS[mechanism](rng), 'lagrangian',
                                 rng.uniform(-9.0, 9.0, 3))
        assert_scales_bound(dynamics, states_within_limits(dynamics, 100).q)


def test_scales_bound_the_terms_of_random_trees() -> None:
    """The same for trees with slides and mimic joints, while every joint is within its limits."""
    rng = np.random.default_rng(6)
    tried = 0
    for joints in (2, 3, 4, 5, 6, 7) * 3:
        dynamics = load_dynamics(random_tree(rng, joints), 'lagrangian', rng.uniform(-9, 9, 3))
        q = random_states(dynamics.arm, 300, seed=joints)[0]
        tree = Kinematics(dynamics.arm).tree_positions(q)
        limits = [body.joint.limit for body in dynamics.arm.bodies]
        within = ((tree >= [limit.lower for limit in limits])
                  & (tree <= [limit.upper for limit in limits])).all(axis=1)
        tried += int(within.sum())
        assert_scales_bound(dynamics, q[within])
    assert tried > 1000


def test_relative_difference_of_nothing_and_of_no_number() -> None:
    """0 / 0 is no difference, x / 0 an infinite one, and so is NaN or an infinity."""
    one = np.ones(2)
    assert relative(0.0 * one, 0.0 * one) == 0.0
    assert relative(one, 0.0 * one) == np.inf
    assert relative(np.array([np.nan, 0.0]), one) == np.inf
    assert relative(np.array([np.inf, 0.0]), one) == np.inf
    assert relative(np.zeros((0, 2)), one) == 0.0
    assert relative(-0.5 * one, one) == 0.5


def test_relative_difference_never_is_nan() -> None:
    """A scale that has overflowed or is no number makes a difference infinite, never NaN."""
    with np.errstate(all='ignore'):
        for scale in (np.nan, np.inf):
            found = relative(np.array([1.0]), np.array([scale]))
            assert not np.isnan(found)
        assert relative(np.array([1.0]), np.array([np.nan])) == np.inf


# -- bad results, bad input ------------------------------------------------------------------


@pytest.mark.filterwarnings('ignore:invalid value:RuntimeWarning')  # the broken engine's own
@pytest.mark.parametrize('number', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('term', TERMS[:3])
def test_an_engine_that_returns_no_number_disagrees_infinitely(
        term: str, number: float) -> None:
    """NaN is reported, not raised, and does not spoil the other terms."""
    true = load('two_link', 'closed_form')
    broken = Altered(true, **{term: number})
    states = states_within_limits(true, 5)
    for one, two in ((true, broken), (broken, true)):
        found = cross_check(one, two, *states)
        assert getattr(found, term) == np.inf
        assert found.torque == np.inf
        assert found.worst == np.inf
        for other in TERMS[:3]:
            assert other == term or getattr(found, other) == 0.0


def test_a_single_bad_state_of_a_batch_is_enough() -> None:
    """One NaN among a thousand states is not averaged away."""
    true = load('two_link', 'closed_form')
    gravity = np.zeros((1000, 2))
    gravity[617, 1] = np.nan
    found = cross_check(true, Altered(true, gravity=gravity), *states_within_limits(true, 1000))
    assert found.gravity == np.inf


def test_arms_with_other_joints_cannot_be_compared() -> None:
    """The error names the joints of both."""
    other = load_dynamics(text_of('two_link').replace('joint1', 'shoulder'), 'pinocchio')
    with pytest.raises(InvalidArgumentError, match=r'joint1, joint2 and shoulder, joint2'):
        CrossCheck(load('two_link', 'closed_form'), other)
    with pytest.raises(InvalidArgumentError):
        cross_check(load('two_link', 'closed_form'), load('spatial_3r', 'closed_form'),
                    np.zeros(2), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize('states', [
    (np.zeros(3), np.zeros(2), np.zeros(2)),
    (np.zeros(2), np.zeros((2, 3)), np.zeros(2)),
    (np.zeros((4, 2)), np.zeros((5, 2)), np.zeros(2)),
    (np.array([np.nan, 0.0]), np.zeros(2), np.zeros(2)),
    (['a', 'b'], np.zeros(2), np.zeros(2)),
    ([[1.0, 2.0], [3.0]], np.zeros(2), np.zeros(2)),
], ids=['long', 'wide', 'unequal', 'nan', 'letters', 'ragged'])
def test_bad_states_are_one_clear_error(states: tuple[Any, Any, Any]) -> None:
    """Whatever is no state of this arm is an InvalidArgumentError."""
    one, two = load('two_link', 'closed_form'), load('two_link', 'lagrangian')
    with pytest.raises(InvalidArgumentError):
        cross_check(one, two, *states)
    with pytest.raises(InvalidArgumentError):
        CrossCheck(one, two)(*states)


def test_lists_of_numbers_are_states_too() -> None:
    """Plain lists work as arrays do."""
    one, two = load('two_link', 'closed_form'), load('two_link', 'lagrangian')
    assert cross_check(one, two, [0.1, 0.2], [0, 1], [1, 0]).worst <= ROUNDING
