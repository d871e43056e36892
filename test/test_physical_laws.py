# SPDX-License-Identifier: Apache-2.0
"""Physical laws, as one suite over every arm and every engine, and proof that each can fail.

`ros_lagdyn.laws` measures the laws for the command line. The most important ones are written out
here a second time, a few lines each, so that nothing rests on that file alone.
"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.linalg import norm
from random_arms import RANDOM_ARMS, random_tree
from shipped import ENGINES, GRAVITIES, SHIPPED, load, states_within_limits, text_of

from ros_lagdyn import check_laws, load_dynamics, random_states
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.laws import LAW_NAMES

Array = np.ndarray

EPS = np.finfo(float).eps
STEP = EPS ** (1 / 3)  # optimal step of a central difference
DIFFERENCE_ERROR = 100 * STEP**2  # its relative error, with two digits of margin

SYMMETRIC = 'M is symmetric'
POSITIVE = 'M is positive definite'
SKEW = "M' - 2 C is skew-symmetric"
QUADRATIC = "C v = M' v - dT/dq"
GRADIENT = 'g = dU/dq'
LAGRANGE = "Lagrange's equation gives tau"
SUM = 'tau = M a + C v + g'
POWER = 'power of tau = rate of energy'
ROUND_TRIP = 'forward of inverse dynamics = a'
REGRESSOR = 'Y theta = tau'
ALL = {SYMMETRIC, POSITIVE, SKEW, QUADRATIC, GRADIENT, LAGRANGE, SUM, POWER, ROUND_TRIP, REGRESSOR}


@pytest.fixture(params=['earth', 'tilted', 'none'])
def arm(request: pytest.FixtureRequest, stem: str, engine: str) -> Dynamics:
    """Return one shipped arm in one engine under one gravity."""
    return load(stem, engine, GRAVITIES[request.param])


def violated(dynamics: Dynamics, *states: Array) -> dict[str, float]:
    """Return the laws that do not hold and by how much they are violated."""
    results = check_laws(dynamics, *states)
    assert {result.law for result in results} == ALL
    return {result.law: result.violation for result in results if not result.holds}


# -- the laws that ros_lagdyn.laws measures --------------------------------------------------


def test_no_law_is_missing() -> None:
    """Every law that the suite promises is measured, once."""
    assert set(LAW_NAMES) == ALL
    assert len(LAW_NAMES) == len(ALL)


def test_every_law_holds(arm: Dynamics) -> None:
    """Every arm obeys every law in every engine, whichever way gravity points."""
    assert violated(arm, *states_within_limits(arm, 60)) == {}


def test_every_law_holds_at_a_single_state(dynamics: Dynamics) -> None:
    """One state is as good as a batch."""
    q, v, a = (x[0] for x in states_within_limits(dynamics, 1))
    assert violated(dynamics, q, v, a) == {}


@pytest.mark.parametrize(('moving', 'pushed'), [(False, True), (True, False), (False, False)])
def test_no_false_alarm_where_terms_vanish(
        arm: Dynamics, moving: bool, pushed: bool) -> None:
    """An arm at rest, or one without acceleration, violates nothing."""
    q, v, a = states_within_limits(arm, 20)
    assert violated(arm, q, moving * v, pushed * a) == {}


@pytest.mark.parametrize('speed', [1e-6, 1e-3, 1e3])
def test_no_false_alarm_for_very_slow_or_fast_motion(dynamics: Dynamics, speed: float) -> None:
    """Violations are relative to how large the terms are, also in slow and in fast motion."""
    q, v, a = states_within_limits(dynamics, 20)
    assert violated(dynamics, q, speed * v, a) == {}
    assert violated(dynamics, q, v, speed * a) == {}


def scaled(text: str, length: float, mass: float) -> str:
    """Return a URDF with all lengths and masses multiplied."""
    robot = ElementTree.fromstring(text)
    prismatic = [joint for joint in robot.iter('joint') if joint.get('type') == 'prismatic']
    for origin in robot.iter('origin'):
        xyz = (length * float(word) for word in origin.get('xyz', '0 0 0').split())
        origin.set('xyz', ' '.join(map(repr, xyz)))
    for element in robot.iter('mass'):
        element.set('value', repr(mass * float(element.get('value', ''))))
    for element in robot.iter('inertia'):
        for key, value in element.attrib.items():
            element.set(key, repr(mass * length**2 * float(value)))
    for joint in prismatic:
        limit = joint.find('limit')
        assert limit is not None
        for key in ('lower', 'upper', 'velocity'):
            limit.set(key, repr(length * float(limit.get(key, '0'))))
    return ElementTree.tostring(robot, encoding='unicode')


@pytest.mark.parametrize(('length', 'mass'), [(1e-3, 1e-3), (1e-3, 1e3), (1e3, 1e-3), (1e3, 1e3)])
def test_no_false_alarm_for_tiny_or_huge_arms(
        stem: str, engine: str, length: float, mass: float) -> None:
    """The laws hold from a millimetre and a gram to a kilometre and a thousand tons."""
    dynamics = load_dynamics(scaled(text_of(stem), length, mass), engine)
    q, v, a = random_states(dynamics.arm, 20, seed=1)
    assert violated(dynamics, q, v, a) == {}


@pytest.mark.parametrize('mechanism', RANDOM_ARMS)
def test_every_law_holds_for_random_arms(mechanism: str, engine: str) -> None:
    """The laws hold for any numbers and any disguise of each mechanism."""
    rng = np.random.default_rng(7)
    for _ in range(4):
        dynamics = load_dynamics(RANDOM_ARMS[mechanism](rng), engine, rng.uniform(-9.0, 9.0, 3))
        assert violated(dynamics, *states_within_limits(dynamics, 10)) == {}


@pytest.mark.parametrize('engine', ['lagrangian', 'pinocchio'])
def test_every_law_holds_for_random_trees(engine: str) -> None:
    """The laws hold for branching trees with slides, mimic joints and massless links."""
    rng = np.random.default_rng(8)
    for joints in (1, 2, 3, 4, 5, 6, 7):
        dynamics = load_dynamics(random_tree(rng, joints), engine, rng.uniform(-9.0, 9.0, 3))
        assert violated(dynamics, *states_within_limits(dynamics, 10)) == {}


# -- the laws once more, without ros_lagdyn.laws ---------------------------------------------


def along(function: Callable[[Array], Array], q: Array, v: Array) -> Array:
    """Return the derivative of function(q) while q moves with v, by a central difference."""
    h = STEP / max(1.0, norm(v))
    return (function(q + h * v) - function(q - h * v)) / (2.0 * h)


def gradient(function: Callable[[Array], float], q: Array) -> Array:
    """Return d function / d q."""
    return np.array([along(function, q, direction) for direction in np.eye(len(q))])


def test_mass_matrix_is_symmetric_and_positive_definite(arm: Dynamics) -> None:
    """Every motion has a positive kinetic energy."""
    for q in states_within_limits(arm, 6).q:
        M = arm.mass_matrix(q)
        np.testing.assert_allclose(M, M.T, rtol=0.0, atol=10 * EPS * norm(M))
        np.linalg.cholesky(M)  # raises where M is not positive definite


def test_mass_rate_minus_twice_coriolis_is_skew_symmetric(arm: Dynamics) -> None:
    """Coriolis forces do no work: M' - 2 C is skew-symmetric."""
    for q, v, _ in zip(*states_within_limits(arm, 6), strict=True):
        N = along(arm.mass_matrix, q, v) - 2 * arm.coriolis_matrix(q, v)
        atol = DIFFERENCE_ERROR * norm(arm.mass_matrix(q)) * max(1.0, norm(v))
        np.testing.assert_allclose(N, -N.T, rtol=0.0, atol=atol)


def test_coriolis_matrix_is_made_of_christoffel_symbols(arm: Dynamics) -> None:
    """c_kj = 1/2 sum_i (d m_kj/d q_i + d m_ki/d q_j - d m_ij/d q_k) v_i (001)."""
    for q, v, _ in zip(*states_within_limits(arm, 6), strict=True):
        dM = np.stack([along(arm.mass_matrix, q, e) for e in np.eye(len(q))])  # dM[i] = dM/dq_i
        C = 0.5 * (np.einsum('ikj,i->kj', dM, v) + np.einsum('jki,i->kj', dM, v)
                   - np.einsum('kij,i->kj', dM, v))
        atol = DIFFERENCE_ERROR * norm(arm.mass_matrix(q)) * max(1.0, norm(v))
        np.testing.assert_allclose(arm.coriolis_matrix(q, v), C, rtol=0.0, atol=atol)


def test_coriolis_forces_follow_from_the_kinetic_energy(arm: Dynamics) -> None:
    """C v = M' v - dT/dq."""
    for q, v, _ in zip(*states_within_limits(arm, 6), strict=True):
        expected = along(arm.mass_matrix, q, v) @ v - gradient(
            lambda x, rate=v: arm.kinetic_energy(x, rate), q)
        atol = DIFFERENCE_ERROR * norm(arm.mass_matrix(q)) * max(1.0, norm(v)) ** 2
        np.testing.assert_allclose(arm.coriolis_matrix(q, v) @ v, expected, rtol=0.0, atol=atol)


def test_gravity_is_the_gradient_of_the_potential_energy(arm: Dynamics) -> None:
    """The torque that holds the arm still is dU/dq."""
    for q in states_within_limits(arm, 6).q:
        g = arm.gravity(q)
        atol = DIFFERENCE_ERROR * (norm(g) + abs(arm.potential_energy(q)))
        np.testing.assert_allclose(g, gradient(arm.potential_energy, q), rtol=0.0, atol=atol)


def test_energy_and_torque_are_those_of_the_terms(arm: Dynamics) -> None:
    """T = v' M v / 2, tau = M a + C v + g, and forward dynamics gives a back."""
    for q, v, a in zip(*states_within_limits(arm, 6), strict=True):
        M, C, g = arm.all_terms(q, v)
        tau = arm.inverse_dynamics(q, v, a)
        scale = norm(M @ a) + norm(C @ v) + norm(g)
        np.testing.assert_allclose(tau, M @ a + C @ v + g, rtol=0.0, atol=100 * EPS * scale)
        np.testing.assert_allclose(arm.kinetic_energy(q, v), v @ M @ v / 2, rtol=100 * EPS)
        # Solving for a magnifies the rounding of tau by the condition of M.
        atol = 100 * EPS * scale / np.linalg.eigvalsh(M)[0]
        np.testing.assert_allclose(arm.forward_dynamics(q, v, tau), a, rtol=0.0, atol=atol)


# -- energy over time ------------------------------------------------------------------------

DURATION = 0.25  # [s]
COARSE_STEPS = 20


def starts(dynamics: Dynamics) -> tuple[Array, Array]:
    """Return a batch of states to start from; the pendulum far from its pole, and kept so."""
    q, v, _ = states_within_limits(dynamics, 4)
    if dynamics.arm.name == 'spherical_pendulum':
        q[:, 1] = np.sign(q[:, 1]) * (0.6 + 0.4 * abs(q[:, 1]) / 1.5)
        v[:, 0] = 4.0 * np.sign(v[:, 0])  # angular momentum keeps it from the pole
        v[:, 1] *= 0.2
    return q, v


def energy_error(dynamics: Dynamics, torque: Callable[[float], Array], steps: int) -> Array:
    """Return the energy gained beyond the work of torque(t), for each start of the batch.

    The work is integrated along with the motion, by the classical Runge-Kutta method.
    """
    q, v = starts(dynamics)
    work = np.zeros(len(q))
    h = DURATION / steps

    def energy() -> Array:
        return dynamics.kinetic_energy(q, v) + dynamics.potential_energy(q)

    def rates(q: Array, v: Array, t: float) -> tuple[Array, Array, Array]:
        tau = torque(t)
        return v, dynamics.forward_dynamics(q, v, np.broadcast_to(tau, q.shape)), v @ tau

    before = energy()
    for t in h * np.arange(steps):
        k1 = rates(q, v, t)
        k2 = rates(q + h / 2 * k1[0], v + h / 2 * k1[1], t + h / 2)
        k3 = rates(q + h / 2 * k2[0], v + h / 2 * k2[1], t + h / 2)
        k4 = rates(q + h * k3[0], v + h * k3[1], t + h)
        q, v, work = (x + h / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(
            (q, v, work), k1, k2, k3, k4, strict=True))
    return energy() - before - work


def assert_energy_balances(dynamics: Dynamics, torque: Callable[[float], Array]) -> None:
    """Assert that the energy error is that of the integration, and vanishes with its step.

    The error of a method of fourth order falls at least 16 times when the step is halved, so 8
    times leaves room for higher orders of the step. A law that is broken does not fall at all.
    """
    q, v = starts(dynamics)
    M, U = dynamics.mass_matrix(q), dynamics.potential_energy(q)
    scale = float((norm(M, axis=(1, 2)) * (norm(v, axis=1) ** 2 + 1.0) + abs(U)).max()
                  + norm(torque(0.1)))
    coarse = abs(energy_error(dynamics, torque, COARSE_STEPS)).max()
    fine = abs(energy_error(dynamics, torque, 2 * COARSE_STEPS)).max()
    rounding = 2 * COARSE_STEPS * 10 * EPS * scale
    assert coarse <= 1e-4 * scale
    assert fine <= coarse / 8 + rounding


@pytest.mark.parametrize('gravity', ['earth', 'tilted'])
def test_free_arm_conserves_its_energy(stem: str, engine: str, gravity: str) -> None:
    """An arm that nothing drives keeps T + U."""
    dynamics = load(stem, engine, GRAVITIES[gravity])
    assert_energy_balances(dynamics, lambda t: np.zeros(len(dynamics.joints)))


@pytest.mark.parametrize('gravity', ['earth', 'tilted'])
def test_work_is_the_energy_gained(stem: str, engine: str, gravity: str) -> None:
    """A driven arm gains exactly the work of its motors."""
    dynamics = load(stem, engine, GRAVITIES[gravity])
    phases = np.arange(len(dynamics.joints))
    size = 0.5 * norm(dynamics.gravity(starts(dynamics)[0]), axis=1).max()
    assert_energy_balances(dynamics, lambda t: size * np.cos(9.0 * t + phases))


# -- each law can fail -----------------------------------------------------------------------

SLIGHT = 1e-5  # relative size of a mistake that must still be noticed


class Mutant(Dynamics):
    """An engine like another one; subclasses make one mistake."""

    engine = 'mutant'

    def __init__(self, true: Dynamics) -> None:
        super().__init__(true.arm, true.gravity_vector)
        self.true = true

    def _mass_matrix(self, q: Array) -> Array:
        return self.true.mass_matrix(q)

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        return self.true.coriolis_matrix(q, v)

    def _gravity(self, q: Array) -> Array:
        return self.true.gravity(q)

    def _potential_energy(self, q: Array) -> Array:
        return np.asarray(self.true.potential_energy(q))

    def _largest(self) -> float:
        return float(abs(self.true.mass_matrix(np.zeros(len(self.joints)))).max())


class HalfMassRate(Mutant):
    """C = M'/2 is skew and conserves energy, but is not Lagrange's."""

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        C = super()._coriolis_matrix(q, v)
        return (C + np.swapaxes(C, 1, 2)) / 2


class NotChristoffel(Mutant):
    """C has the right product C v, but not from Christoffel symbols."""

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        C = np.array(super()._coriolis_matrix(q, v))
        C[:, 0, 0] -= SLIGHT * self._largest() * v[:, 1]
        C[:, 0, 1] += SLIGHT * self._largest() * v[:, 0]
        return C


class NoCoriolis(Mutant):
    """C = 0."""

    def _coriolis_matrix(self, q: Array, v: Array) -> Array:
        return 0.0 * super()._coriolis_matrix(q, v)


class GravityReversed(Mutant):
    """-g: what gravity does, not what holds the arm."""

    def _gravity(self, q: Array) -> Array:
        return -super()._gravity(q)


class GravitySlightlyOff(Mutant):
    """g is a hundred-thousandth too large."""

    def _gravity(self, q: Array) -> Array:
        return (1.0 + SLIGHT) * super()._gravity(q)


class Asymmetric(Mutant):
    """One entry of M differs from its mirror image."""

    def _mass_matrix(self, q: Array) -> Array:
        M = np.array(super()._mass_matrix(q))
        M[:, 0, 1] += SLIGHT * self._largest()
        return M


class Indefinite(Mutant):
    """M has a negative eigenvalue in every pose."""

    def _mass_matrix(self, q: Array) -> Array:
        M = super()._mass_matrix(q)
        return M - np.diag([1.0] + [0.0] * (len(self.joints) - 1)) * 2 * self._largest()


class HeavierMatrix(Mutant):
    """M is a hundred-thousandth too large; C is not."""

    def _mass_matrix(self, q: Array) -> Array:
        return (1.0 + SLIGHT) * super()._mass_matrix(q)


class ForgottenVelocityTerm(Mutant):
    """Inverse dynamics leaves out C v at the last joint."""

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        tau = np.array(super()._inverse_dynamics(q, v, a))
        tau[:, -1] -= np.einsum('nj,nj->n', self._coriolis_matrix(q, v)[:, -1], v)
        return tau


class ForgottenCoupling(Mutant):
    """Inverse dynamics leaves out one product of M a."""

    def _inverse_dynamics(self, q: Array, v: Array, a: Array) -> Array:
        tau = np.array(super()._inverse_dynamics(q, v, a))
        tau[:, -2] -= self._mass_matrix(q)[:, -2, -1] * a[:, -1]
        return tau


class PotentialScaled(Mutant):
    """U is a hundred-thousandth too large."""

    def _potential_energy(self, q: Array) -> Array:
        return (1.0 + SLIGHT) * super()._potential_energy(q)


class KineticScaled(Mutant):
    """T is a hundred-thousandth too large."""

    def kinetic_energy(self, q: Array, v: Array) -> Array | float:
        return (1.0 + SLIGHT) * super().kinetic_energy(q, v)


class ForwardWithoutGravity(Mutant):
    """Forward dynamics forgets gravity."""

    def forward_dynamics(self, q: Array, v: Array, tau: Array) -> Array:
        return super().forward_dynamics(q, v, tau + self.gravity(q))


class AnotherArm(Mutant):
    """The parameters are those of an arm with one link a hundred-thousandth heavier."""

    def __init__(self, true: Dynamics) -> None:
        super().__init__(true)
        robot = ElementTree.fromstring(text_of(true.arm.name))
        mass = list(robot.iter('mass'))[-1]
        mass.set('value', repr((1.0 + SLIGHT) * float(mass.get('value', ''))))
        text = ElementTree.tostring(robot, encoding='unicode')
        self.true = load_dynamics(text, true.engine, true.gravity_vector)


EXPECTED = {
    HalfMassRate: {QUADRATIC, LAGRANGE, REGRESSOR},
    NotChristoffel: {SKEW},
    NoCoriolis: {SKEW, QUADRATIC, LAGRANGE, POWER, REGRESSOR},
    GravityReversed: {GRADIENT, LAGRANGE, POWER, REGRESSOR},
    GravitySlightlyOff: {GRADIENT, LAGRANGE, POWER, REGRESSOR},
    Asymmetric: {SYMMETRIC, POWER, REGRESSOR},
    Indefinite: {POSITIVE, REGRESSOR},
    HeavierMatrix: {SKEW, QUADRATIC, LAGRANGE, POWER, REGRESSOR},
    ForgottenVelocityTerm: {LAGRANGE, SUM, POWER, REGRESSOR},
    ForgottenCoupling: {LAGRANGE, SUM, POWER, ROUND_TRIP, REGRESSOR},
    PotentialScaled: {GRADIENT, LAGRANGE, POWER},
    KineticScaled: {QUADRATIC, LAGRANGE, POWER},
    ForwardWithoutGravity: {ROUND_TRIP},
    AnotherArm: {REGRESSOR},
}


@pytest.mark.parametrize('stem', ['two_link', 'spatial_3r', 'five_bar'])
@pytest.mark.parametrize('mutant', EXPECTED, ids=lambda mutant: mutant.__name__)
def test_each_mistake_breaks_exactly_the_laws_it_should(
        stem: str, engine: str, mutant: type[Mutant]) -> None:
    """No single law is enough: each mistake breaks some and passes the others."""
    dynamics = mutant(load(stem, engine))
    assert set(violated(dynamics, *states_within_limits(dynamics, 60))) == EXPECTED[mutant]


def test_every_law_is_broken_by_some_mistake() -> None:
    """A law that nothing breaks would prove nothing."""
    assert set().union(*EXPECTED.values()) == ALL


@pytest.mark.parametrize('stem', SHIPPED)
def test_a_faithful_copy_breaks_no_law(stem: str) -> None:
    """It is the mistakes that break laws, not the way in which the mutants are made."""
    dynamics = Mutant(load(stem, 'closed_form'))
    assert violated(dynamics, *states_within_limits(dynamics, 60)) == {}


@pytest.mark.parametrize('engine', ENGINES)
@pytest.mark.parametrize('mutant', [GravityReversed, NoCoriolis])
def test_a_mistake_also_shows_in_the_energy_over_time(mutant: type[Mutant], engine: str) -> None:
    """A wrong sign of gravity passes skew symmetry and C v, and shows in the energy."""
    dynamics = mutant(load('two_link', engine))
    with pytest.raises(AssertionError):
        assert_energy_balances(dynamics, lambda t: np.zeros(2))


@pytest.mark.parametrize('term', ['_mass_matrix', '_coriolis_matrix', '_gravity'])
def test_a_number_that_is_none_is_a_violation(
        monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    """An engine that returns NaN is reported as a violation; nothing is raised."""
    dynamics = Mutant(load('two_link', 'lagrangian'))
    right = getattr(dynamics, term)

    def broken(*states: Array) -> Array:
        result = np.array(right(*states))
        result[0, 0] = np.nan
        return result

    monkeypatch.setattr(dynamics, term, broken)
    found = violated(dynamics, *states_within_limits(dynamics, 5))
    assert REGRESSOR in found and found[REGRESSOR] == np.inf
