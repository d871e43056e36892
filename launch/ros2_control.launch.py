# SPDX-License-Identifier: Apache-2.0
"""Feeds a ros2_control effort controller with torques, by default on mock hardware."""

import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import Command, LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

# Each namespace has its own transforms; without a namespace these names are what they were.
TRANSFORMS = [('/tf', 'tf'), ('/tf_static', 'tf_static')]


def generate_launch_description() -> LaunchDescription:
    """Describe the arguments and the nodes."""
    use_sim_time = ParameterValue(LaunchConfiguration('use_sim_time'), value_type=bool)
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                'urdf',
                default_value=[FindPackageShare('ros_lagdyn'), '/urdf/two_link.urdf'],
                description='Path of the URDF file. Without <ros2_control> it gets mock hardware.',
            ),
            DeclareLaunchArgument(
                'controllers_file',
                default_value=[FindPackageShare('ros_lagdyn'), '/config/controllers.yaml'],
                description='Path of the parameter file of controller_manager, its controllers '
                'and command.joints of lagdyn.',
            ),
            DeclareLaunchArgument(
                'command_mode',
                default_value='off',
                choices=['off', 'gravity', 'inverse_dynamics'],
                description='Which torques go to the effort controller. off: none.',
            ),
            DeclareLaunchArgument(
                'enable',
                default_value='false',
                choices=['true', 'false'],
                description='Whether commands are switched on at the start. false: a call of '
                '~/enable does it.',
            ),
            DeclareLaunchArgument(
                'engine',
                default_value='closed_form',
                choices=['closed_form', 'lagrangian', 'pinocchio'],
                description='Whose numbers are published.',
            ),
            DeclareLaunchArgument(
                'namespace',
                default_value='',
                description='Namespace of all nodes and topics, one for each robot.',
            ),
            DeclareLaunchArgument(
                'use_sim_time',
                default_value='false',
                choices=['true', 'false'],
                description='Whether time comes from the topic /clock.',
            ),
            DeclareLaunchArgument(
                'params_file',
                default_value=[FindPackageShare('ros_lagdyn'), '/config/lagdyn.yaml'],
                description='Path of a parameter file for lagdyn. What it says wins over other '
                'arguments.',
            ),
            DeclareLaunchArgument(
                'rviz',
                default_value='false',
                choices=['true', 'false'],
                description='Whether to draw the arm and its torques in rviz.',
            ),
            DeclareLaunchArgument(
                'frame',
                default_value='base_link',
                description='Link of the arm that rviz keeps still: its root link.',
            ),
            # Publishes robot_description with <ros2_control>, and the frames of the links on tf.
            Node(
                package='robot_state_publisher',
                executable='robot_state_publisher',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {
                        'robot_description': ParameterValue(
                            Command(
                                [
                                    # The Python that runs this file finds the package too.
                                    f'"{sys.executable}" -m ros_lagdyn ros2_control "',
                                    LaunchConfiguration('urdf'),
                                    '"',
                                ],
                                on_stderr='warn',
                            ),
                            value_type=str,
                        ),
                        # The most it allows: rviz draws torques where a transform has their time.
                        'publish_frequency': 1000.0,
                        'use_sim_time': use_sim_time,
                    }
                ],
                remappings=TRANSFORMS,
            ),
            # Runs hardware and controllers. Humble asks for ~/robot_description, newer ones for
            # robot_description.
            Node(
                package='controller_manager',
                executable='ros2_control_node',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {'use_sim_time': use_sim_time},
                    LaunchConfiguration('controllers_file'),
                ],
                remappings=[('~/robot_description', 'robot_description')],
            ),
            # Starts the two controllers, then ends. The file again: newer controller managers do
            # not hand their own parameters on to controllers.
            Node(
                package='controller_manager',
                executable='spawner',
                namespace=LaunchConfiguration('namespace'),
                arguments=[
                    'joint_state_broadcaster',
                    'effort_controller',
                    '--param-file',
                    LaunchConfiguration('controllers_file'),
                ],
            ),
            # Computes torques from joint_states, and sends them in the controller's joint order.
            Node(
                package='ros_lagdyn',
                executable='dynamics_node',
                name='lagdyn',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {
                        'engine': ParameterValue(LaunchConfiguration('engine'), value_type=str),
                        # As text: YAML would read "off" as false.
                        'command.mode': ParameterValue(
                            LaunchConfiguration('command_mode'), value_type=str
                        ),
                        'command.enable_at_start': ParameterValue(
                            LaunchConfiguration('enable'), value_type=bool
                        ),
                        'markers.enabled': ParameterValue(
                            LaunchConfiguration('rviz'), value_type=bool
                        ),
                        'use_sim_time': use_sim_time,
                    },
                    LaunchConfiguration('controllers_file'),
                    LaunchConfiguration('params_file'),
                ],
                remappings=[('~/command', 'effort_controller/commands')],
            ),
            # Draws the arm, its torques and markers. When it is closed, the others go on.
            Node(
                package='rviz2',
                executable='rviz2',
                namespace=LaunchConfiguration('namespace'),
                arguments=[
                    '--display-config',
                    [FindPackageShare('ros_lagdyn'), '/config/ros_lagdyn.rviz'],
                    '--fixed-frame',
                    LaunchConfiguration('frame'),
                ],
                parameters=[{'use_sim_time': use_sim_time}],
                remappings=TRANSFORMS,
                condition=IfCondition(LaunchConfiguration('rviz')),
            ),
        ]
    )
