# SPDX-License-Identifier: Apache-2.0
"""Computes the dynamics of any arm live: simulator, dynamics node, rviz."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import Command, LaunchConfiguration, PythonExpression
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
                description='Path of the URDF file of the arm.',
            ),
            DeclareLaunchArgument(
                'rviz',
                default_value='true',
                choices=['true', 'false'],
                description='Whether to draw the arm and its torques in rviz.',
            ),
            DeclareLaunchArgument(
                'simulator',
                default_value='true',
                choices=['true', 'false'],
                description='Whether to simulate the arm. false: a robot publishes joint_states.',
            ),
            DeclareLaunchArgument(
                'command_mode',
                default_value='off',
                choices=['off', 'gravity', 'inverse_dynamics'],
                description='Which torques move the arm. off: none, a simulated arm swings by '
                'itself. A real arm gets them after a call of ~/enable.',
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
                description='Path of a parameter file for lagdyn and arm_simulator. What it says '
                'wins over other arguments.',
            ),
            DeclareLaunchArgument(
                'frame',
                default_value='base_link',
                description='Link of the arm that rviz keeps still: its root link.',
            ),
            # Publishes robot_description, and the frames of the links on tf.
            Node(
                package='robot_state_publisher',
                executable='robot_state_publisher',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {
                        'robot_description': ParameterValue(
                            Command(['cat "', LaunchConfiguration('urdf'), '"']), value_type=str
                        ),
                        # The most it allows: rviz draws torques where a transform has their time.
                        'publish_frequency': 1000.0,
                        'use_sim_time': use_sim_time,
                    }
                ],
                remappings=TRANSFORMS,
            ),
            # Moves the arm by effort_command and gravity, publishes joint_states.
            Node(
                package='ros_lagdyn',
                executable='arm_simulator',
                name='arm_simulator',
                namespace=LaunchConfiguration('namespace'),
                parameters=[
                    {
                        # Something to look at, unless torques are to hold the arm.
                        'wave_until_command': ParameterValue(
                            PythonExpression(
                                ["'", LaunchConfiguration('command_mode'), "' == 'off'"]
                            ),
                            value_type=bool,
                        ),
                        'use_sim_time': use_sim_time,
                    },
                    LaunchConfiguration('params_file'),
                ],
                condition=IfCondition(LaunchConfiguration('simulator')),
            ),
            # Computes torques, gravity compensation and mass matrix from joint_states.
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
                        # A real arm waits for somebody to call ~/enable.
                        'command.enable_at_start': ParameterValue(
                            LaunchConfiguration('simulator'), value_type=bool
                        ),
                        # A busy machine is silent for longer than a robot may be.
                        'command.timeout': ParameterValue(
                            PythonExpression(
                                [
                                    "0.5 if '",
                                    LaunchConfiguration('simulator'),
                                    "' == 'true' else 0.05",
                                ]
                            ),
                            value_type=float,
                        ),
                        'markers.enabled': ParameterValue(
                            LaunchConfiguration('rviz'), value_type=bool
                        ),
                        'use_sim_time': use_sim_time,
                    },
                    LaunchConfiguration('params_file'),
                ],
                remappings=[('~/command', 'effort_command')],
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
