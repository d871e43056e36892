# SPDX-License-Identifier: Apache-2.0
"""The eight shipped arms, loaded once for all tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ros_lagdyn.dynamics import EARTH_GRAVITY, ENGINES, Dynamics, load_dynamics

URDF_FOLDER = Path(__file__).resolve().parent.parent / 'urdf'
SHIPPED = (
    'cartesian',
    'five_bar',
    'prismatic_revolute',
    'skew_cartesian',
    'spatial_3r',
    'spherical_pendulum',
    'two_link',
    'two_link_remote',
)
GRAVITIES = {  # [m/s^2]
    'earth': EARTH_GRAVITY,
    'on the wall': (9.81, 0.0, 0.0),
    'tilted': (-2.0, 3.5, 8.8),
    'none': (0.0, 0.0, 0.0),
}
SEED = 20261118

__all__ = ['ENGINES', 'GRAVITIES', 'SEED', 'SHIPPED', 'States', 'load', 'text_of']


class States(NamedTuple):
    """A batch of N states: positions, velocities and accelerations, each of shape (N, n)."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray


@cache
def text_of(stem: str) -> str:
    """Return the XML text of a shipped arm."""
    return (URDF_FOLDER / f'{stem}.urdf').read_text(encoding='utf-8')


@cache
def load(stem: str, engine: str, gravity: tuple[float, ...] = EARTH_GRAVITY) -> Dynamics:
    """Return a shipped arm in one engine, the same object for each call."""
    return load_dynamics(text_of(stem), engine, gravity)


def states_within_limits(dynamics: Dynamics, count: int, seed: int = SEED) -> States:
    """Return seeded random states within the joint limits; endless ones within one turn."""
    rng = np.random.default_rng(seed)
    limits = [joint.limit for joint in dynamics.arm.independent_joints]
    lower = np.maximum([limit.lower for limit in limits], -np.pi)
    upper = np.minimum([limit.upper for limit in limits], np.pi)
    upper = np.maximum(upper, lower)
    speed = np.minimum([limit.velocity for limit in limits], 6.0)
    size = (count, len(limits))
    return States(
        q=rng.uniform(lower, upper, size),
        v=rng.uniform(-speed, speed, size),
        a=rng.uniform(-10.0, 10.0, size),
    )
