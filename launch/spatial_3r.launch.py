# SPDX-License-Identifier: Apache-2.0
"""Computes the dynamics of the arm spatial_3r live."""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Include arm.launch.py for this arm; it takes the same arguments."""
    return LaunchDescription(
        [
            # A group keeps this arm's URDF from another arm that is launched beside it.
            GroupAction(
                [
                    # All nodes.
                    IncludeLaunchDescription(
                        str(Path(__file__).with_name('arm.launch.py')),
                        launch_arguments={'arm': 'spatial_3r'}.items(),
                    ),
                ]
            ),
        ]
    )
