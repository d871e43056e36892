# SPDX-License-Identifier: Apache-2.0
"""The simulated arm obeys physics: fall, energy, momentum, sticking, stops."""

from __future__ import annotations

import re

import numpy as np
import pytest
from shipped import SEED, SHIPPED, load, states_within_limits, text_of

from ros_lagdyn import InvalidArgumentError, LagdynError, UnknownNameError, Wrench, load_dynamics
from ros_lagdyn.dynamics import Dynamics
from ros_lagdyn.generalized_forces import ForcedDynamics
from ros_lagdyn.joint_stops import joint_stops
from ros_lagdyn.recent_wrenches import RecentWrenches
from ros_lagdyn.simulation import (
    LONGEST_SUB_STEP,
    ArmSimulation,
    DivergedError,
    resisted_velocity,
)

PERIOD = 0.002  # [s], of the default rate


def without_limits(stem: str) -> Dynamics:
    """Return a shipped arm that nothing stops: limits from 0 to 0 are none."""
    text = re.sub(r'lower="[^"]*" upper="[^"]*"', 'lower="0" upper="0"', text_of(stem))
    return load_dynamics(text)


def start_of(dynamics: Dynamics) -> tuple[np.ndarray, np.ndarray]:
    """Return a state in the middle of the joint ranges, in slow motion."""
    lower, upper = joint_stops(load(dynamics.arm.name, 'closed_form').arm)
    n = len(dynamics.joints)
    return (lower + upper) / 2 + np.array([0.2, 0.3, -0.4])[:n], np.array([0.3, -0.2, 0.4])[:n]


def fine_motion(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, tau: np.ndarray,
                duration: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the end of a frictionless motion, by the midpoint rule with extrapolation."""
    def midpoint(count: int) -> np.ndarray:
        h = duration / count
        y = np.array([q, v])
        for _ in range(count):
            half = y + 0.5 * h * np.array([y[1], dynamics.forward_dynamics(y[0], y[1], tau)])
            y = y + h * np.array([half[1], dynamics.forward_dynamics(half[0], half[1], tau)])
        return y

    coarse, fine = midpoint(steps), midpoint(2 * steps)
    end = (4.0 * fine - coarse) / 3.0
    return end[0], end[1]


@pytest.mark.parametrize('stem', ['cartesian', 'skew_cartesian'])
def test_slides_fall_as_the_parabola_says(stem: str) -> None:
    """Constant M, no C: q = q_0 + v_0 t + a t^2 / 2, whatever the steps."""
    dynamics = without_limits(stem)
    q, v = start_of(dynamics)
    tau = np.array([5.0, -3.0])
    a = dynamics.forward_dynamics(q, v, tau)
    simulation = ArmSimulation(dynamics, friction=False, q=q, v=v)
    times = np.random.default_rng(SEED).uniform(0.0, 0.01, 100)
    for duration in times:
        simulation.step(tau, duration)
    t = times.sum()
    # The rotor of 1e-9 that keeps M regular is all that differs.
    np.testing.assert_allclose(simulation.q, q + v * t + 0.5 * a * t**2, rtol=3e-9)
    np.testing.assert_allclose(simulation.v, v + a * t, rtol=3e-9)


def test_falls_as_an_independent_integration_does(stem: str) -> None:
    """Another method with steps of its own, on another engine, ends at the same state."""
    dynamics = without_limits(stem)
    q, v = start_of(dynamics)
    tau = np.array([1.0, -0.5, 0.3])[:len(q)]
    simulation = ArmSimulation(dynamics, friction=False, q=q, v=v)
    for _ in range(100):
        simulation.step(tau, PERIOD)
    q_end, v_end = fine_motion(load(stem, 'pinocchio'), q, v, tau, 0.2, 400)
    np.testing.assert_allclose(simulation.q, q_end, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(simulation.v, v_end, rtol=0.0, atol=1e-6)


def test_energy_does_not_drift(stem: str) -> None:
    """Without friction, torque and stops the energy stays, within 1e-6 of what moves.

    The pendulum's rotor, which the energy leaves out, turns fast when it passes the pole.
    """
    dynamics = without_limits(stem)
    simulation = ArmSimulation(dynamics, friction=False, q=(start := start_of(dynamics))[0],
                               v=start[1])
    energy, largest, kinetic = simulation.energy(), 0.0, 0.0
    for _ in range(1500):
        simulation.step(np.zeros(len(simulation.q)), PERIOD)
        largest = max(largest, abs(simulation.energy() - energy))
        kinetic = max(kinetic, dynamics.kinetic_energy(simulation.q, simulation.v))
    assert largest <= (1e-5 if stem == 'spherical_pendulum' else 1e-7) * kinetic


@pytest.mark.parametrize(('stem', 'joint'), [('spherical_pendulum', 0), ('spatial_3r', 0)])
def test_momentum_about_the_vertical_stays(stem: str, joint: int) -> None:
    """Gravity has no moment about the vertical axis, so (M v)_1 is constant."""
    dynamics = without_limits(stem)
    q, v = start_of(dynamics)
    simulation = ArmSimulation(dynamics, friction=False, q=q, v=v)
    momentum = (dynamics.mass_matrix(q) @ v)[joint]
    assert abs(momentum) > 1e-3
    for _ in range(500):
        simulation.step(np.zeros(len(q)), PERIOD)
        now = (dynamics.mass_matrix(simulation.q) @ simulation.v)[joint]
        assert now == pytest.approx(momentum, rel=1e-5)


def test_work_of_the_torques_is_the_energy_gained(stem: str) -> None:
    """A torque that is constant for one step does the work tau . (q_1 - q_0)."""
    dynamics = without_limits(stem)
    q, v = start_of(dynamics)
    simulation = ArmSimulation(dynamics, friction=False, q=q, v=v)
    rng = np.random.default_rng(SEED)
    energy, work, exchanged = simulation.energy(), 0.0, 0.0
    for _ in range(250):
        before = simulation.q
        simulation.step(rng.uniform(-2.0, 2.0, len(q)), PERIOD)
        work += simulation.tau @ (simulation.q - before)
        exchanged += abs(simulation.tau @ (simulation.q - before))
    assert exchanged > 0.05
    kinetic = dynamics.kinetic_energy(simulation.q, simulation.v)
    assert abs(simulation.energy() - energy - work) <= 1e-6 * (exchanged + kinetic)


@pytest.mark.parametrize('axes', ['base', 'frame'])
def test_a_push_does_the_work_of_its_force(axes: str) -> None:
    """The energy gained is the force times the way of the point that is pushed."""
    dynamics = without_limits('two_link')
    simulation = ArmSimulation(dynamics, friction=False, q=[1.0, 0.5], v=[0.0, 0.0])
    push = Wrench(frame='tool0', force=(3.0, 0.0, 5.0), axes=axes)
    torque = ForcedDynamics(dynamics)
    energy, work = simulation.energy(), 0.0
    for _ in range(300):
        before = simulation.q
        simulation.step(np.zeros(2), PERIOD, (push,))
        middle = (before + simulation.q) / 2
        work += torque.external(middle, push) @ (simulation.q - before)
    assert abs(work) > 0.5
    assert simulation.energy() - energy == pytest.approx(work, abs=1e-4 * abs(work))


def test_friction_only_takes_energy(stem: str) -> None:
    """Under friction and against its stops, an arm without torques loses energy and rests."""
    dynamics = load(stem, 'closed_form')
    q, v = start_of(dynamics)
    simulation = ArmSimulation(dynamics, q=np.clip(q, *joint_stops(dynamics.arm)), v=v)
    energies = [simulation.energy()]
    for _ in range(600):
        simulation.step(np.zeros(len(q)), PERIOD)
        energies.append(simulation.energy())
    scale = abs(np.array(energies)).max() + np.ptp(energies)
    assert np.diff(energies).max() <= 1e-9 * scale
    assert energies[-1] < energies[0] - 1e-3


@pytest.mark.parametrize('stem', ['two_link', 'two_link_remote', 'five_bar', 'spatial_3r'])
def test_what_sticks_does_not_move_at_all(stem: str) -> None:
    """Gravity plus 0.9 of the friction leaves q as it is, to the last bit; 1.1 moves it."""
    dynamics = load(stem, 'closed_form')
    q = start_of(dynamics)[0]
    coulomb = np.array([joint.friction for joint in dynamics.arm.independent_joints])
    for share in (0.9, -0.9, 0.0):
        simulation = ArmSimulation(dynamics, q=q, v=np.zeros(len(q)))
        for _ in range(200):
            simulation.step(dynamics.gravity(q) + share * coulomb, PERIOD)
        np.testing.assert_array_equal(simulation.q, q)
        np.testing.assert_array_equal(simulation.v, 0.0)
    simulation = ArmSimulation(dynamics, q=q, v=np.zeros(len(q)))
    for _ in range(50):
        simulation.step(dynamics.gravity(q) + 1.5 * coulomb, PERIOD)
    assert (simulation.v > 0.0).any()


def test_a_joint_sticks_while_another_one_moves() -> None:
    """The first slide is held by friction though the second one, loaded, slides away."""
    dynamics = load('cartesian', 'closed_form')
    coulomb = dynamics.arm.independent_joints[1].friction
    q = np.mean(joint_stops(dynamics.arm), axis=0)
    simulation = ArmSimulation(dynamics, q=q, v=np.zeros(2))
    tau = dynamics.gravity(q) + np.array([0.0, 3.0 * coulomb])
    for _ in range(50):
        simulation.step(tau, PERIOD)
    assert simulation.q[0] == q[0]
    assert simulation.q[1] > q[1] + 1e-3


def test_damping_and_friction_slow_a_slide_as_the_exponential_says() -> None:
    """m v' = F - F_c - d v has the solution v = (F - F_c) / d (1 - exp(-d t / m))."""
    dynamics = without_limits('cartesian')
    joint = dynamics.arm.independent_joints[0]
    m = dynamics.mass_matrix(np.zeros(2))[0, 0]
    tau = dynamics.gravity(np.zeros(2)) + np.array([joint.friction + 10.0, 0.0])
    simulation = ArmSimulation(dynamics, q=np.zeros(2), v=np.zeros(2))
    for _ in range(500):
        simulation.step(tau, PERIOD)
    t, rate = 500 * PERIOD, joint.damping / m
    expected = 10.0 / joint.damping * (1.0 - np.exp(-rate * t))
    # The implicit step is of first order: relative error rate * h.
    assert simulation.v[0] == pytest.approx(expected, rel=rate * LONGEST_SUB_STEP)
    way = 10.0 / joint.damping * (t - (1.0 - np.exp(-rate * t)) / rate)
    assert simulation.q[0] == pytest.approx(way, rel=rate * LONGEST_SUB_STEP)


def test_dry_friction_alone_stops_a_slide_after_the_way_of_the_book() -> None:
    """A slide of speed v stops after v^2 / (2 a), a = F_c / m, but for the last sub-step."""
    text = re.sub(r'damping="[^"]*"', 'damping="0"', text_of('cartesian'))
    dynamics = load_dynamics(text)
    q = np.mean(joint_stops(dynamics.arm), axis=0)
    tau = dynamics.gravity(q)
    a = dynamics.arm.independent_joints[0].friction / dynamics.mass_matrix(q)[0, 0]
    simulation = ArmSimulation(dynamics, q=q, v=[0.3, 0.0])
    for _ in range(int(1.1 * 0.3 / a / PERIOD)):
        simulation.step(tau, PERIOD)
    assert simulation.v[0] == 0.0
    assert simulation.q[0] - q[0] == pytest.approx(
        0.3**2 / (2 * a), abs=a * LONGEST_SUB_STEP**2)


def test_stops_hold_and_let_go() -> None:
    """A falling elbow ends at its stop without rebound, and leaves it when it is lifted."""
    dynamics = load('two_link', 'closed_form')
    lower, upper = joint_stops(dynamics.arm)
    simulation = ArmSimulation(dynamics, q=[0.3, 0.0], v=[0.0, 0.0])
    for _ in range(1500):
        simulation.step(np.zeros(2), PERIOD)
        assert (simulation.q >= lower).all() and (simulation.q <= upper).all()
    assert simulation.q[0] == lower[0]
    assert simulation.v[0] == 0.0
    lift = dynamics.gravity(simulation.q) + np.array([10.0, 0.0])
    for _ in range(50):
        simulation.step(lift, PERIOD)
    assert simulation.q[0] > lower[0] + 1e-3


def test_every_arm_stays_finite_under_random_torques(stem: str) -> None:
    """Five seconds of full random torque: finite, and within the stops."""
    dynamics = load(stem, 'closed_form')
    lower, upper = joint_stops(dynamics.arm)
    effort = np.array([joint.limit.effort for joint in dynamics.arm.independent_joints])
    rng = np.random.default_rng(SEED)
    n = len(effort)
    simulation = ArmSimulation(dynamics, q=np.clip(np.zeros(n), lower, upper), v=np.zeros(n))
    for k in range(2500):
        if k % 50 == 0:
            tau = rng.uniform(-1.0, 1.0, n) * effort
        simulation.step(tau, PERIOD)
        assert np.isfinite(simulation.v).all()
        assert (simulation.q >= lower).all() and (simulation.q <= upper).all()


def test_a_torque_at_the_pole_of_the_pendulum_has_an_answer() -> None:
    """There M has lost rank: the simulation goes on with finite numbers all the same."""
    simulation = ArmSimulation(load('spherical_pendulum', 'closed_form'), q=[0, 0], v=[0, 0])
    for tau in ([0.001, 0.0], [0.0, 1.0], [0.0, -1.0]):
        for _ in range(50):
            simulation.step(tau, PERIOD)
    assert np.isfinite(simulation.q).all() and np.isfinite(simulation.v).all()


def test_friction_and_limits_of_a_mimic_joint_count() -> None:
    """The carrier's friction adds to joint1's, and its narrower limits stop joint1."""
    text = text_of('two_link_remote')
    plain = load_dynamics(text)
    mimic = '<mimic joint="joint1" multiplier="-1" offset="0"/>'
    assert text.count(mimic) == 1
    rubbing = load_dynamics(text.replace(mimic, mimic + '<dynamics damping="0" friction="5"/>'))
    q = np.array([1.0, 0.5])
    tau = plain.gravity(q) + np.array([5.1, 0.0])  # joint1 alone resists 0.2 Nm
    moved, held = (ArmSimulation(dynamics, q=q, v=[0, 0]) for dynamics in (plain, rubbing))
    for _ in range(50):
        moved.step(tau, PERIOD)
        held.step(tau, PERIOD)
    assert moved.q[0] > q[0] + 1e-3
    np.testing.assert_array_equal(held.q, q)

    narrow = load_dynamics(text.replace('lower="-3.49" upper="0.35"', 'lower="-1.2" upper="0"'))
    np.testing.assert_allclose(joint_stops(narrow.arm)[0], [0.0, -1.57])
    np.testing.assert_allclose(joint_stops(narrow.arm)[1], [1.2, 4.71])
    stopped = ArmSimulation(narrow, q=q, v=[0, 0])
    for _ in range(500):
        stopped.step(tau, PERIOD)
    assert stopped.q[0] == pytest.approx(1.2, abs=1e-12)


def test_limits_of_a_mimic_joint_that_contradict_its_leader_are_none() -> None:
    """A careless URDF does not lock the arm."""
    text = text_of('two_link_remote').replace(
        'lower="-3.49" upper="0.35"', 'lower="8" upper="9"')
    np.testing.assert_allclose(joint_stops(load_dynamics(text).arm)[1], [3.49, 4.71])


def test_torque_saturates_at_the_effort_limit() -> None:
    """<limit effort> bounds the torque; 0 there is no bound."""
    simulation = ArmSimulation(load('two_link', 'closed_form'), q=[1, 0], v=[0, 0])
    simulation.step([1000.0, -1000.0], PERIOD)
    np.testing.assert_array_equal(simulation.tau, [80.0, -10.0])
    text = text_of('two_link').replace('effort="80"', 'effort="0"')
    simulation = ArmSimulation(load_dynamics(text), q=[1, 0], v=[0, 0])
    simulation.step([1000.0, -1000.0], PERIOD)
    np.testing.assert_array_equal(simulation.tau, [1000.0, -10.0])


def test_an_overflow_stops_the_arm_and_says_so() -> None:
    """After it the arm rests at the last good position and can go on."""
    simulation = ArmSimulation(load('two_link', 'closed_form'), q=[1, 0], v=[0, 0])
    push = Wrench(frame='tool0', force=(1e300, 0.0, 1e300))
    with pytest.raises(DivergedError, match='joint1 = 1'):
        simulation.step([0.0, 0.0], PERIOD, (push,))
    np.testing.assert_array_equal(simulation.q, [1.0, 0.0])
    np.testing.assert_array_equal(simulation.v, 0.0)
    simulation.step([0.0, 0.0], PERIOD)
    assert simulation.v[0] < 0.0


def test_resisting_impulses_satisfy_their_law() -> None:
    """Each joint sticks within its bounds, or moves against the whole of one of them."""
    rng = np.random.default_rng(SEED)
    seen = set()
    for _ in range(2000):
        n = int(rng.integers(1, 8))
        root = rng.normal(size=(n, n))
        A = root @ root.T + 1e-3 * np.eye(n)
        p = rng.normal(size=n)
        bound = rng.choice([0.0, 0.3, 3.0], n)
        stop = rng.choice(3, n)
        low, high = np.where(stop == 1, -np.inf, -bound), np.where(stop == 2, np.inf, bound)
        v, stuck = resisted_velocity(A, p, np.linalg.solve(A, p), low, high)
        impulse = A @ v - p
        scale = 1e-9 * (1.0 + abs(A) @ abs(v) + abs(p))
        assert (v[stuck] == 0.0).all()
        assert ((impulse >= low - scale) & (impulse <= high + scale)).all()
        up, down = v > 1e-9, v < -1e-9
        np.testing.assert_allclose(impulse[up], low[up], atol=scale.max())
        np.testing.assert_allclose(impulse[down], high[down], atol=scale.max())
        seen |= set(zip(stuck.tolist(), stop.tolist(), strict=True))
    assert len(seen) == 6  # free, at the upper and at the lower stop, stuck or not


def test_engines_move_the_same_way(stem: str) -> None:
    """Friction, stops and all: the engines agree after a second."""
    ends = []
    for engine in ('closed_form', 'pinocchio'):
        dynamics = load(stem, engine)
        q = np.clip(start_of(dynamics)[0], *joint_stops(dynamics.arm))
        simulation = ArmSimulation(dynamics, q=q, v=start_of(dynamics)[1])
        for _ in range(250):
            simulation.step(np.full(len(q), 0.5), 2 * PERIOD)
        ends.append(simulation.q)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-8)


def test_bad_arguments_are_refused() -> None:
    """Each with a sentence that names the argument."""
    dynamics = load('two_link', 'closed_form')
    with pytest.raises(InvalidArgumentError, match=r'joint1.*within its stops -0.35 to 3.49'):
        ArmSimulation(dynamics, q=[-2.0, 0.0], v=[0.0, 0.0])
    with pytest.raises(InvalidArgumentError, match='v must have shape'):
        ArmSimulation(dynamics, q=[0.0, 0.0], v=[0.0])
    simulation = ArmSimulation(dynamics, q=[1.0, 0.0], v=[0.0, 0.0])
    with pytest.raises(InvalidArgumentError, match='tau must be finite'):
        simulation.step([np.nan, 0.0], PERIOD)
    with pytest.raises(InvalidArgumentError, match='tau must have shape'):
        simulation.step(np.zeros((3, 2)), PERIOD)
    for duration in (-0.1, np.nan, np.inf):
        with pytest.raises(InvalidArgumentError, match='duration must be'):
            simulation.step([0.0, 0.0], duration)
    with pytest.raises(UnknownNameError, match='nowhere'):
        simulation.step([0.0, 0.0], PERIOD, (Wrench(frame='nowhere'),))
    np.testing.assert_array_equal(simulation.q, [1.0, 0.0])
    assert issubclass(DivergedError, LagdynError)


def test_the_callers_arrays_stay_the_callers() -> None:
    """The simulation neither changes nor keeps what it was given."""
    q, v, tau = np.array([1.0, 0.2]), np.zeros(2), np.zeros(2)
    simulation = ArmSimulation(load('two_link', 'closed_form'), q=q, v=v)
    simulation.step(tau, 0.1)
    np.testing.assert_array_equal(q, [1.0, 0.2])
    np.testing.assert_array_equal(v, 0.0)
    tau[:] = 7.0
    np.testing.assert_array_equal(simulation.tau, 0.0)


def test_the_newest_wrench_of_each_link_counts_until_it_is_too_old() -> None:
    """0.5 s after its message a push is over; another link's goes on."""
    wrenches = RecentWrenches(0.5)
    first, second = Wrench(frame='a', force=(1, 0, 0)), Wrench(frame='a', force=(2, 0, 0))
    other = Wrench(frame='b')
    assert wrenches.current(10.0) == ()
    wrenches.put(first, 10.0)
    wrenches.put(second, 10.1)
    wrenches.put(other, 10.4)
    assert wrenches.current(10.55) == (second, other)
    assert wrenches.current(10.65) == (other,)
    assert wrenches.current(10.95) == ()


def test_a_timeout_of_0_keeps_a_wrench_for_ever() -> None:
    """Until it is replaced or all are forgotten."""
    wrenches = RecentWrenches(0.0)
    wrenches.put(Wrench(frame='a'), 0.0)
    assert len(wrenches.current(1e9)) == 1
    wrenches.clear()
    assert wrenches.current(1e9) == ()


def test_every_shipped_arm_is_covered() -> None:
    """States of all arms are within what joint_stops says."""
    for stem in SHIPPED:
        dynamics = load(stem, 'closed_form')
        lower, upper = joint_stops(dynamics.arm)
        q = states_within_limits(dynamics, 100).q
        assert ((q >= lower) & (q <= upper)).all()
