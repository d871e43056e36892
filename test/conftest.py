# SPDX-License-Identifier: Apache-2.0
"""Every shipped arm in every engine, as fixtures: a law that takes them holds for all."""

from __future__ import annotations

import pytest
from shipped import ENGINES, SHIPPED, States, load, states_within_limits

from ros_lagdyn.dynamics import Dynamics


@pytest.fixture(params=SHIPPED)
def stem(request: pytest.FixtureRequest) -> str:
    """Return the name of one shipped arm."""
    return str(request.param)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Return the name of one engine."""
    return str(request.param)


@pytest.fixture
def dynamics(stem: str, engine: str) -> Dynamics:
    """Return one shipped arm in one engine; all tests share the object."""
    return load(stem, engine)


@pytest.fixture
def states(dynamics: Dynamics) -> States:
    """Return 50 seeded random states within the joint limits."""
    return states_within_limits(dynamics, 50)
