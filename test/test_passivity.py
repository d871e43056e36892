# SPDX-License-Identifier: Apache-2.0
"""Passivity: the work of the torques is the energy gained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.linalg import norm
from shipped import GRAVITIES, load, states_within_limits

from ros_lagdyn import EnergyBalance, ForcedDynamics, InvalidArgumentError, energy_balance
from ros_lagdyn.dynamics import Dynamics

Array = np.ndarray
DURATION = 1.3  # [s]
AMPLITUDE = np.array([0.4, 0.3, 0.5])  # [rad] or [m]
PULSE = np.array([3.0, 4.1, 2.3])  # [rad/s]


def motion(dynamics: Dynamics, samples: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return t, q, v, a of a smooth motion, and the torques that the arm needs for it."""
    n = len(dynamics.joints)
    middle = states_within_limits(dynamics, 1).q[0]
    if dynamics.arm.name == 'spherical_pendulum':
        middle[1] = 1.2
    t = np.linspace(0.0, DURATION, samples)
    angle = np.multiply.outer(t, PULSE[:n])
    q = middle + AMPLITUDE[:n] * np.sin(angle)
    v = AMPLITUDE[:n] * PULSE[:n] * np.cos(angle)
    a = -AMPLITUDE[:n] * PULSE[:n] ** 2 * np.sin(angle)
    return t, q, v, a, dynamics.inverse_dynamics(q, v, a)


def balance(dynamics: Dynamics, samples: int) -> EnergyBalance:
    """Return the balance of that motion."""
    t, q, v, _, tau = motion(dynamics, samples)
    return energy_balance(dynamics, t, q, v, tau)


@pytest.mark.parametrize('gravity', ['earth', 'tilted', 'none'])
def test_work_is_the_energy_gained(stem: str, engine: str, gravity: str) -> None:
    """The balance closes, and its error falls with the square of the sampling interval.

    The trapezoidal rule has an error c h^2 + O(h^4), so that halving h leaves a quarter of it.
    """
    dynamics = load(stem, engine, GRAVITIES[gravity])
    coarse, fine = balance(dynamics, 65), balance(dynamics, 129)
    _, q, v, _, tau = motion(dynamics, 129)
    work_done = float((abs((v * tau).sum(-1))).mean() * DURATION)  # what went in and out
    rounding = 1e-13 * (work_done + abs(dynamics.potential_energy(q)).max())
    assert abs(coarse.error) <= 0.01 * work_done
    assert abs(fine.error) <= abs(coarse.error) / 3.0 + rounding
    # Richardson: what is left when the c h^2 is taken away is much smaller still.
    assert abs((4.0 * fine.error - coarse.error) / 3.0) <= 0.02 * abs(coarse.error) + rounding


def test_balance_is_supplied_minus_gained(engine: str) -> None:
    """The two numbers are the work and H(T) - H(0), and the error is their difference."""
    arm = load('two_link', engine)
    t, q, v, _, tau = motion(arm, 500)
    found = energy_balance(arm, t, q, v, tau)
    H = arm.kinetic_energy(q, v) + arm.potential_energy(q)
    np.testing.assert_allclose(found.gained, H[-1] - H[0], rtol=1e-12)
    np.testing.assert_allclose(found.supplied, np.trapezoid((v * tau).sum(-1), t) if hasattr(
        np, 'trapezoid') else np.trapz((v * tau).sum(-1), t), rtol=1e-12)
    assert found.error == found.supplied - found.gained


def test_uneven_sampling(engine: str) -> None:
    """Samples need not be evenly spaced, as in a recording with lost messages."""
    arm = load('two_link', engine)
    t, q, v, _, tau = motion(arm, 2001)
    kept = np.sort(np.random.default_rng(1).permutation(np.arange(1, 2000))[:1500])
    kept = np.concatenate([[0], kept, [2000]])
    whole, part = (energy_balance(arm, t[i], q[i], v[i], tau[i])
                   for i in (np.arange(2001), kept))
    assert part.gained == whole.gained
    np.testing.assert_allclose(part.error, 0.0, atol=1e-4)


def test_friction_is_missing_from_the_balance(engine: str) -> None:
    """With motor torques instead, the error is what friction took: passivity's other half."""
    arm = load('two_link', engine)
    t, q, v, _, tau = motion(arm, 2001)
    friction = ForcedDynamics(arm).friction(v)
    with_friction = energy_balance(arm, t, q, v, tau + friction)
    power = (friction * v).sum(-1)
    lost = float((0.5 * (power[1:] + power[:-1]) * np.diff(t)).sum())
    assert lost > 0.0
    np.testing.assert_allclose(with_friction.error, lost, rtol=1e-3)


def test_a_wrong_model_does_not_balance(engine: str) -> None:
    """Torques of an arm under another gravity leave an error as large as its work."""
    arm, other = load('two_link', engine), load('two_link', engine, (0.0, 0.0, 9.81))
    t, q, v, _, tau = motion(arm, 2001)
    assert abs(energy_balance(other, t, q, v, tau).error) > 0.1
    assert abs(energy_balance(arm, t, q, v, tau).error) < 1e-4


def test_energy_taken_out_never_exceeds_what_is_stored(stem: str, engine: str) -> None:
    """Passivity (001): the work is bounded below by minus the energy stored at the start."""
    dynamics = load(stem, engine)
    t, q, v, _, tau = motion(dynamics, 1001)
    U = dynamics.potential_energy(q)
    stored = dynamics.kinetic_energy(q[0], v[0]) + U[0] - U.min()
    power = (v * tau).sum(-1)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (power[1:] + power[:-1]) * np.diff(t))])
    assert work.min() >= -stored - 1e-4 * (1.0 + norm(power))


def test_a_single_torque_beside_a_batch_is_constant(engine: str) -> None:
    """A torque that does not change may be given once; an arm at rest gains nothing."""
    arm = load('two_link', engine)
    t, q = [0.0, 1.0], np.array([[0.1, 0.2], [0.1, 0.2]])
    found = energy_balance(arm, t, q, np.zeros((2, 2)), arm.gravity(q[0]))
    assert (found.supplied, found.gained, found.error) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize('times', [
    [0.0], [0.0, 1.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, np.nan], [0.0, np.inf], [[0.0, 1.0]],
    0.0, 'ab', ['a', 'b'], None,
], ids=repr)
def test_times_that_are_none_are_refused(times: Any) -> None:
    """Times must be finite numbers that increase, one per state."""
    arm = load('two_link', 'closed_form')
    zero = np.zeros((2, 2))
    with pytest.raises(InvalidArgumentError):
        energy_balance(arm, times, zero, zero, zero)


def test_a_single_state_is_no_motion() -> None:
    """One sample has no duration."""
    arm = load('two_link', 'closed_form')
    with pytest.raises(InvalidArgumentError, match='at least two states'):
        energy_balance(arm, [0.0], np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(InvalidArgumentError):
        energy_balance(arm, [], np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2)))


@pytest.mark.parametrize('shape', [(2, 3), (3, 2), (3,)])
def test_states_of_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    """Positions, velocities and torques are checked as everywhere."""
    arm = load('two_link', 'closed_form')
    zero = np.zeros((2, 2))
    with pytest.raises(InvalidArgumentError):
        energy_balance(arm, [0.0, 1.0], zero, np.zeros(shape), zero)
    bad = zero.copy()
    bad[1, 0] = np.nan
    with pytest.raises(InvalidArgumentError, match='tau must be finite'):
        energy_balance(arm, [0.0, 1.0], zero, zero, bad)
