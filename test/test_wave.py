# SPDX-License-Identifier: Apache-2.0
"""The motion of an arm that nobody commands is gentle, and takes the torques that it says."""

from __future__ import annotations

import numpy as np
import pytest
from shipped import SHIPPED, load

from ros_lagdyn.generalized_forces import ForcedDynamics
from ros_lagdyn.joint_stops import home_position, joint_stops
from ros_lagdyn.wave import Wave

TIMES = np.linspace(0.0, 60.0, 3001)
STEP = np.finfo(float).eps ** (1 / 3)  # [s], optimal for a central difference


@pytest.fixture(params=SHIPPED)
def stem(request: pytest.FixtureRequest) -> str:
    return request.param


def test_it_keeps_half_of_the_room_and_of_the_speed(stem: str) -> None:
    """Also of the limits that mimic joints set."""
    dynamics = load(stem, 'pinocchio')
    arm, home = dynamics.arm, home_position(dynamics.arm)
    lower, upper = joint_stops(arm)
    wave = Wave(dynamics, home)
    q, v, _ = (np.array(part) for part in zip(*map(wave.at, TIMES), strict=True))
    fastest = np.array([joint.limit.velocity for joint in arm.independent_joints])
    rounding = 1e-12
    assert (q >= 0.5 * (home + lower) - rounding).all()
    assert (q <= 0.5 * (home + upper) + rounding).all()
    assert (abs(v) <= np.minimum(0.5 * fastest, Wave.FASTEST) + rounding).all()
    assert (np.ptp(q, axis=0) > 0.05).all()  # every joint can be seen to move


def test_velocities_and_torques_are_those_of_the_motion(stem: str) -> None:
    dynamics = load(stem, 'lagrangian')
    wave = Wave(dynamics, home_position(dynamics.arm))
    for t in TIMES[::300]:
        (q_0, v_0, _), (q, v, tau), (q_1, v_1, _) = map(wave.at, (t - STEP, t, t + STEP))
        # Derivatives of sines below 10 rad/s: the error of a central difference is w^3 STEP^2 / 6.
        np.testing.assert_allclose((q_1 - q_0) / (2 * STEP), v, rtol=0.0, atol=1e-8)
        a = (v_1 - v_0) / (2 * STEP)
        expected = dynamics.inverse_dynamics(q, v, a) + ForcedDynamics(dynamics).friction(v)
        np.testing.assert_allclose(tau, expected, rtol=0.0, atol=1e-6 * max(1.0, abs(tau).max()))


def test_an_arm_at_its_stop_stays_there() -> None:
    """There is no room on one side."""
    dynamics = load('two_link', 'closed_form')
    centre = joint_stops(dynamics.arm)[1]
    q, v, _ = Wave(dynamics, centre).at(1.0)
    np.testing.assert_array_equal(q, centre)
    np.testing.assert_array_equal(v, 0.0)


def test_without_friction_torques_are_those_of_the_rigid_arm() -> None:
    dynamics = load('two_link', 'closed_form')
    home = home_position(dynamics.arm)
    _, v, with_friction = Wave(dynamics, home).at(0.0)
    _, _, without = Wave(dynamics, home, friction=False).at(0.0)
    difference = ForcedDynamics(dynamics).friction(v)
    assert abs(difference).min() > 0.0
    np.testing.assert_allclose(with_friction - without, difference)
