# SPDX-License-Identifier: Apache-2.0
"""Robot arm dynamics, computed by formula, by the Lagrangian recipe and by Pinocchio.

Nothing here imports ROS: that is for ros_lagdyn.ros_node alone.
"""

from ros_lagdyn.coordinates import Coordinates, LinearCoordinates, TransformedDynamics
from ros_lagdyn.cross_check import CrossCheck, Disagreement, cross_check
from ros_lagdyn.dynamics import ENGINES, Dynamics, Terms, load_dynamics
from ros_lagdyn.errors import (
    AssumptionError,
    InvalidArgumentError,
    LagdynError,
    SingularCoordinatesError,
    SingularMassMatrixError,
    UnknownNameError,
    UnrecognisedMechanismError,
    UnsupportedJointError,
    UrdfError,
)
from ros_lagdyn.generalized_forces import ForcedDynamics, Wrench
from ros_lagdyn.inertia_bounds import InertiaBounds, inertia_bounds
from ros_lagdyn.laws import LawResult, check_laws
from ros_lagdyn.passivity import EnergyBalance, energy_balance
from ros_lagdyn.regressor import parameter_vector, regressor
from ros_lagdyn.sampling import random_states
from ros_lagdyn.shipped_arms import shipped_urdf
from ros_lagdyn.structure import Structure, structure
from ros_lagdyn.urdf_model import load_arm

__version__ = '0.2.0'

__all__ = [
    'ENGINES',
    'AssumptionError',
    'Coordinates',
    'CrossCheck',
    'Disagreement',
    'Dynamics',
    'EnergyBalance',
    'ForcedDynamics',
    'InertiaBounds',
    'InvalidArgumentError',
    'LagdynError',
    'LawResult',
    'LinearCoordinates',
    'SingularCoordinatesError',
    'SingularMassMatrixError',
    'Structure',
    'Terms',
    'TransformedDynamics',
    'UnknownNameError',
    'UnrecognisedMechanismError',
    'UnsupportedJointError',
    'UrdfError',
    'Wrench',
    'check_laws',
    'cross_check',
    'energy_balance',
    'inertia_bounds',
    'load_arm',
    'load_dynamics',
    'parameter_vector',
    'random_states',
    'regressor',
    'shipped_urdf',
    'structure',
]
