# SPDX-License-Identifier: Apache-2.0
"""Uniform bounds of the inertia matrix: they hold in every pose, and are not idle."""

from __future__ import annotations

from itertools import product
from math import cos, pi

import numpy as np
import pytest
from random_arms import RANDOM_ARMS, ArmWriter, direction, random_mass, somewhere
from shipped import load

from ros_lagdyn import LagdynError, inertia_bounds, load_dynamics
from ros_lagdyn.closed_form.two_link_remote import REMOTE_DRIVE
from ros_lagdyn.coordinates import TransformedDynamics
from ros_lagdyn.dynamics import Dynamics

REVOLUTE = ('two_link', 'two_link_remote', 'five_bar', 'spatial_3r', 'spherical_pendulum')
PRISMATIC = ('cartesian', 'skew_cartesian', 'prismatic_revolute')


def eigenvalues(dynamics: Dynamics, count: int, *, turns: int = 1, seed: int = 3) -> np.ndarray:
    """Return the eigenvalues of M at random poses over whole turns; (count, n)."""
    q = np.random.default_rng(seed).uniform(
        -turns * pi, turns * pi, (count, len(dynamics.joints)))
    return np.linalg.eigvalsh(dynamics.mass_matrix(q))


def assert_bounds_hold(dynamics: Dynamics, count: int, *, turns: int = 1) -> None:
    """Assert lambda_m <= eigenvalues <= lambda_M, to the rounding of the eigenvalues."""
    bounds = inertia_bounds(dynamics)
    found = eigenvalues(dynamics, count, turns=turns)
    rounding = 100 * np.finfo(float).eps * found.max()
    assert 0.0 <= bounds.lower <= bounds.least_seen + rounding
    assert bounds.greatest_seen <= bounds.upper
    assert bounds.lower <= found.min() + rounding
    assert found.max() <= bounds.upper


@pytest.mark.parametrize('stem', REVOLUTE)
@pytest.mark.parametrize('engine', ['closed_form', 'lagrangian'])
def test_bounds_hold_at_ten_thousand_poses(stem: str, engine: str) -> None:
    """No eigenvalue leaves the bounds, at any angle and not only within the limits."""
    assert_bounds_hold(load(stem, engine), 10_000)


@pytest.mark.parametrize('stem', ['two_link', 'spatial_3r'])
def test_engines_find_the_same_bounds(stem: str) -> None:
    """The bounds are a property of the arm: Pinocchio agrees on the whole grid."""
    ours, theirs = (inertia_bounds(load(stem, engine)) for engine in ('closed_form', 'pinocchio'))
    for bound in ('lower', 'upper', 'least_seen', 'greatest_seen'):
        np.testing.assert_allclose(
            getattr(ours, bound), getattr(theirs, bound), rtol=1e-9, atol=1e-12 * ours.upper)


@pytest.mark.parametrize('stem', REVOLUTE)
def test_bounds_of_shipped_arms_are_tight(stem: str) -> None:
    """The bounds are within 10 % of eigenvalues that poses really have."""
    dynamics = load(stem, 'closed_form')
    bounds, found = inertia_bounds(dynamics), eigenvalues(dynamics, 10_000)
    assert bounds.upper <= 1.1 * found.max()
    if stem != 'spherical_pendulum':
        assert bounds.lower >= 0.9 * found.min()
        assert bounds.lower > 0.0


def test_bounds_of_the_elbow_are_those_of_the_formula() -> None:
    """The elbow's M varies with q_2 only: a fine scan over it finds the extreme eigenvalues."""
    dynamics = load('two_link', 'closed_form')
    q = np.array([[0.0, angle] for angle in np.linspace(-pi, pi, 20_001)])
    exact = np.linalg.eigvalsh(dynamics.mass_matrix(q))
    bounds = inertia_bounds(dynamics)
    np.testing.assert_allclose(bounds.upper, exact.max(), rtol=1e-4)
    np.testing.assert_allclose(bounds.lower, exact.min(), rtol=1e-2)


def test_pendulum_has_no_lower_bound_but_zero() -> None:
    """M of the spherical pendulum loses rank at its poles: lambda_m = 0."""
    bounds = inertia_bounds(load('spherical_pendulum', 'closed_form'))
    assert bounds.lower == 0.0
    np.testing.assert_allclose(bounds.upper, 1.5 * 0.6**2, rtol=1e-4)  # m l^2


@pytest.mark.parametrize('stem', PRISMATIC)
def test_prismatic_joints_have_no_uniform_bounds(stem: str) -> None:
    """The error names the joint."""
    with pytest.raises(LagdynError, match=r'joint "joint1" is prismatic'):
        inertia_bounds(load(stem, 'closed_form'))


def test_other_coordinates_are_refused() -> None:
    """The degree of the polynomials is known in joint coordinates only."""
    with pytest.raises(LagdynError, match='joint coordinates'):
        inertia_bounds(TransformedDynamics(load('two_link', 'closed_form'), REMOTE_DRIVE))


# -- random arms -----------------------------------------------------------------------------


def random_revolute_arm(rng: np.random.Generator, joints: int, *, planar: bool = False,
                        multipliers: tuple[float, ...] = ()) -> str:
    """Return a chain of revolute joints; the last ones mimic joint 1 with `multipliers`."""
    arm = ArmWriter('chain', rng)
    carrier, first = arm.base, ''
    axis = direction(rng)
    for index in range(joints):
        follower = index - (joints - len(multipliers))
        point = somewhere(rng, 0.4)
        joint = arm.body(
            f'link{index + 1}', on=carrier, axis=axis if planar else direction(rng), at=point,
            kind='revolute', mass=random_mass(rng, point + somewhere(rng, 0.4)),
            mimic=(first, multipliers[follower]) if follower >= 0 else None)
        first, carrier = first or joint, f'link{index + 1}'
    return arm.text()


@pytest.mark.parametrize('joints', [1, 2, 3, 4, 5, 6])
def test_bounds_of_random_arms_hold(joints: int) -> None:
    """They hold for spatial arms of any shape."""
    rng = np.random.default_rng(joints)
    for _ in range(3 if joints < 5 else 1):
        dynamics = load_dynamics(random_revolute_arm(rng, joints), 'lagrangian')
        assert_bounds_hold(dynamics, 3_000)


@pytest.mark.parametrize('joints', [2, 3, 4])
def test_lower_bound_of_random_arms_is_positive(joints: int) -> None:
    """Every link here has inertia about its own joint, so M never loses rank: lambda_m > 0."""
    rng = np.random.default_rng(40 + joints)
    for _ in range(3):
        bounds = inertia_bounds(load_dynamics(random_revolute_arm(rng, joints), 'lagrangian'))
        assert bounds.lower > 0.0


@pytest.mark.parametrize('mechanism', ['two_link', 'two_link_remote', 'five_bar', 'spatial_3r'])
def test_bounds_of_random_textbook_arms_hold(mechanism: str) -> None:
    """The same for the mechanisms of the documents, by formula."""
    rng = np.random.default_rng(11)
    for _ in range(3):
        assert_bounds_hold(load_dynamics(RANDOM_ARMS[mechanism](rng)), 3_000)


@pytest.mark.parametrize(('multiplier', 'planar'), [
    (0.5, False), (2.0, False), (1.0 / 3.0, False), (-1.5, False), (-0.5, True), (2.0, True)])
def test_bounds_hold_with_geared_mimic_joints(multiplier: float, planar: bool) -> None:
    """M then repeats after several turns of the leader only, or has a higher degree."""
    rng = np.random.default_rng(12)
    text = random_revolute_arm(rng, 3, planar=planar, multipliers=(multiplier,))
    assert_bounds_hold(load_dynamics(text, 'lagrangian'), 5_000, turns=6)


def test_two_gears_on_one_leader() -> None:
    """Halves and thirds together repeat after six turns."""
    rng = np.random.default_rng(13)
    text = random_revolute_arm(rng, 4, multipliers=(0.5, 1.0 / 3.0))
    assert_bounds_hold(load_dynamics(text, 'lagrangian'), 5_000, turns=6)


def test_a_gear_that_never_repeats_is_an_error() -> None:
    """With an irrational ratio M never repeats; the error says so."""
    text = random_revolute_arm(np.random.default_rng(14), 3, multipliers=(pi / 3.0,))
    with pytest.raises(LagdynError, match='mimicked with multiplier'):
        inertia_bounds(load_dynamics(text, 'lagrangian'))


def test_too_many_joints_are_an_error_and_not_an_endless_run() -> None:
    """An arm of ten joints would need too fine a grid."""
    text = random_revolute_arm(np.random.default_rng(15), 10)
    with pytest.raises(LagdynError, match='grid'):
        inertia_bounds(load_dynamics(text, 'lagrangian'))


def test_a_narrow_peak_between_grid_points_is_bounded() -> None:
    """The truth may exceed what the grid sees; the bound covers it all the same."""
    rng = np.random.default_rng(17)
    dynamics = load_dynamics(random_revolute_arm(rng, 6), 'lagrangian')
    bounds = inertia_bounds(dynamics)
    found = eigenvalues(dynamics, 5_000)
    assert bounds.lower <= found.min() and found.max() <= bounds.upper
    assert found.max() > bounds.greatest_seen, 'take another seed'


# -- the two theorems behind the bounds ------------------------------------------------------


@pytest.mark.parametrize('degree', [1, 2, 3, 5])
@pytest.mark.parametrize('surplus', [1, 2, 7])
def test_ehlich_and_zeller_in_one_variable(degree: int, surplus: int) -> None:
    """|p| <= max over N > 2 d even angles / cos(pi d / N), for trigonometric polynomials."""
    rng = np.random.default_rng(degree)
    count = 2 * degree + surplus
    orders = np.arange(degree + 1)
    fine = np.linspace(0.0, 2 * pi, 2_000)
    grid = 2 * pi * np.arange(count) / count
    for _ in range(200):
        a, b = rng.normal(size=(2, degree + 1))

        def p(x: np.ndarray, a: np.ndarray = a, b: np.ndarray = b) -> np.ndarray:
            angles = np.multiply.outer(x, orders)
            return np.cos(angles) @ a + np.sin(angles) @ b

        assert abs(p(fine)).max() <= abs(p(grid)).max() / cos(pi * degree / count) * (1 + 1e-12)


def test_ehlich_and_zeller_is_sharp() -> None:
    """cos(d x), seen half a grid step aside, needs the whole factor."""
    degree, count = 2, 8
    grid = 2 * pi * np.arange(count) / count
    p = np.cos(degree * (grid - pi / count))
    np.testing.assert_allclose(1.0, abs(p).max() / cos(pi * degree / count))


def test_ehlich_and_zeller_in_two_variables() -> None:
    """The factors of several variables multiply."""
    rng = np.random.default_rng(2)
    degrees, counts = (2, 3), (6, 9)
    factor = np.prod([1.0 / cos(pi * d / n) for d, n in zip(degrees, counts, strict=True)])
    fine = np.linspace(0.0, 2 * pi, 80)

    def waves(x: np.ndarray, degree: int) -> np.ndarray:
        angles = np.multiply.outer(x, np.arange(degree + 1))
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    for _ in range(200):
        weights = rng.normal(size=(2 * degrees[0] + 2, 2 * degrees[1] + 2))
        on_grid = waves(2 * pi * np.arange(counts[0]) / counts[0], degrees[0]) @ weights @ waves(
            2 * pi * np.arange(counts[1]) / counts[1], degrees[1]).T
        everywhere = waves(fine, degrees[0]) @ weights @ waves(fine, degrees[1]).T
        assert abs(everywhere).max() <= factor * abs(on_grid).max()


@pytest.mark.parametrize('joints', [2, 3, 4, 6])
def test_determinant_is_at_least_the_product_of_the_links_own_inertias(joints: int) -> None:
    """It holds that det M >= J_1 ... J_n: each joint feels at least its own link."""
    rng = np.random.default_rng(joints)
    for _ in range(3):
        dynamics = load_dynamics(random_revolute_arm(rng, joints), 'lagrangian')
        own = [body.joint.axis @ body.inertia.about(np.zeros(3)) @ body.joint.axis
               for body in dynamics.arm.bodies]
        q = rng.uniform(-pi, pi, (500, joints))
        assert (np.linalg.det(dynamics.mass_matrix(q)) >= np.prod(own) * (1.0 - 1e-9)).all()


@pytest.mark.parametrize(('joints', 'degree'), [(2, 2), (3, 2)])
def test_mass_matrix_is_a_trigonometric_polynomial_of_degree_two(
        joints: int, degree: int) -> None:
    """M of an open chain has no harmonic above the second in any joint angle."""
    dynamics = load_dynamics(random_revolute_arm(np.random.default_rng(9), joints), 'lagrangian')
    count = 12
    angles = 2 * pi * np.arange(count) / count
    q = np.array(list(product(angles, repeat=joints)))
    M = dynamics.mass_matrix(q).reshape(*(count,) * joints, joints, joints)
    for axis in range(joints):
        harmonics = abs(np.fft.fft(M, axis=axis)) / count
        high = np.take(harmonics, range(degree + 1, count - degree), axis=axis)
        assert high.max() <= 1e-13 * abs(M).max()
