# SPDX-License-Identifier: Apache-2.0
"""Robot arm dynamics, computed twice: by textbook formula and by Pinocchio. No ROS in here."""

from ros_lagdyn.dynamics import load_dynamics
