# SPDX-License-Identifier: Apache-2.0
"""Shows an arm in rviz, with a slider for each of its joints."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import Command, LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Describe the arguments and the nodes."""
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
                default_value=[
                    FindPackageShare('ros_lagdyn'),
                    '/urdf/',
                    LaunchConfiguration('arm'),
                    '.urdf',
                ],
                description='Path of the URDF file to show. Defaults to the one of the arm.',
            ),
            DeclareLaunchArgument(
                'frame',
                default_value='base_link',
                description='Link of the arm that rviz keeps still.',
            ),
            # Publishes robot_description, and the frames of the links on tf.
            Node(
                package='robot_state_publisher',
                executable='robot_state_publisher',
                parameters=[
                    {
                        'robot_description': ParameterValue(
                            Command(['cat "', LaunchConfiguration('urdf'), '"']), value_type=str
                        ),
                    }
                ],
            ),
            # Publishes joint_states from its sliders.
            Node(
                package='joint_state_publisher_gui',
                executable='joint_state_publisher_gui',
            ),
            # Draws the arm.
            Node(
                package='rviz2',
                executable='rviz2',
                arguments=[
                    '--display-config',
                    [FindPackageShare('ros_lagdyn'), '/config/ros_lagdyn.rviz'],
                    '--fixed-frame',
                    LaunchConfiguration('frame'),
                ],
            ),
        ]
    )
