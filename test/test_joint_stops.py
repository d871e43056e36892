# SPDX-License-Identifier: Apache-2.0
"""How far joints can go, and a position from which they can go both ways."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from shipped import SHIPPED

from ros_lagdyn import load_arm, shipped_urdf
from ros_lagdyn.joint_stops import home_position, joint_stops

INERTIAL = ('<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
            '</inertial>')


def two_joints(limit: str, mimic: str = '', mimic_limit: str = '') -> str:
    """Return a chain of two revolute joints, `lead` and `follow`."""
    return f"""<robot name="pair"><link name="base"/>
      <link name="one">{INERTIAL}</link><link name="two">{INERTIAL}</link>
      <joint name="lead" type="revolute"><parent link="base"/><child link="one"/>
        <axis xyz="0 1 0"/><limit {limit} effort="1" velocity="1"/></joint>
      <joint name="follow" type="revolute"><parent link="one"/><child link="two"/>
        <axis xyz="0 1 0"/><limit {mimic_limit or limit} effort="1" velocity="1"/>{mimic}</joint>
    </robot>"""


def test_a_mimic_joint_stops_the_joint_that_it_follows() -> None:
    """follow = -2 lead + 1 within -1 to 2 leaves lead from -0.5 to 1."""
    arm = load_arm(two_joints('lower="-9" upper="9"',
                              '<mimic joint="lead" multiplier="-2" offset="1"/>',
                              'lower="-1" upper="2"'))
    np.testing.assert_allclose(joint_stops(arm), [[-0.5], [1.0]])


def test_limits_that_leave_no_room_are_none() -> None:
    """0 to 0 is what URDF means by leaving them out."""
    assert joint_stops(load_arm(two_joints('')))[0].tolist() == [-inf, -inf]


@pytest.mark.parametrize('stem', SHIPPED)
def test_home_is_0_or_the_middle(stem: str) -> None:
    arm = load_arm(shipped_urdf(stem))
    lower, upper = joint_stops(arm)
    home = home_position(arm)
    assert (lower < home).all() and (home < upper).all()
    for position, low, high in zip(home, lower, upper, strict=True):
        assert position == (0.0 if low < 0.0 < high else 0.5 * (low + high))


@pytest.mark.filterwarnings('error')
def test_home_of_a_joint_that_turns_for_ever_is_0() -> None:
    assert home_position(load_arm(two_joints(''))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(('limit', 'home'), [
    ('lower="0" upper="0.5"', 0.25), ('lower="-3" upper="-2"', -2.5),
    ('lower="-1" upper="5"', 0.0)])
@pytest.mark.filterwarnings('error')
def test_home_is_inside_of_whatever_stops_there_are(limit: str, home: float) -> None:
    assert home_position(load_arm(two_joints(limit))).tolist() == [home, home]
