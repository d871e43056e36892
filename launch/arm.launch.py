# SPDX-License-Identifier: Apache-2.0
"""Computes the dynamics of a shipped arm live: lagdyn.launch.py with its URDF and config."""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Describe the arguments and what is included."""
    arm = LaunchConfiguration('arm')
    share = FindPackageShare('ros_lagdyn')
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'arm',
                default_value='two_link',
                choices=[
                    'two_link',
                    'two_link_remote',
                    'five_bar',
                    'spatial_3r',
                    'cartesian',
                    'skew_cartesian',
                    'prismatic_revolute',
                    'spherical_pendulum',
                ],
                description='Name of a shipped arm: the stem of a file in the urdf folder.',
            ),
            DeclareLaunchArgument(
                'urdf',
                default_value=[share, '/urdf/', arm, '.urdf'],
                description='Path of the URDF file. Defaults to the one of the arm.',
            ),
            DeclareLaunchArgument(
                'params_file',
                default_value=[share, '/config/', arm, '.yaml'],
                description='Path of a parameter file for lagdyn and arm_simulator. Defaults to '
                'the one of the arm.',
            ),
            # All nodes. An argument without a default must be named here; the others pass through.
            IncludeLaunchDescription(
                str(Path(__file__).with_name('lagdyn.launch.py')),
                launch_arguments={
                    'urdf': LaunchConfiguration('urdf'),
                    'params_file': LaunchConfiguration('params_file'),
                }.items(),
            ),
        ]
    )
