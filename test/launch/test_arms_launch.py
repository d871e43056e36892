# SPDX-License-Identifier: Apache-2.0
"""The launch files start the nodes, the nodes talk, and all of them end when told to."""

# ruff: noqa: E402  the skip stands before imports that fail where ROS 2 is not installed
import importlib.util
import time
import unittest
from pathlib import Path

import pytest

NEEDED = ('launch_testing', 'launch_ros', 'rclpy')
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip(f'{", ".join(MISSING)} not installed: comes with ROS 2, not from PyPI',
                allow_module_level=True)

import launch_testing
import launch_testing.asserts
import launch_testing.markers
import rclpy
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch_testing.actions import ReadyToTest
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

for package in ('ros_lagdyn', 'robot_state_publisher'):
    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        pytest.skip(f'{package} is not in the ament index', allow_module_level=True)

LAUNCH = Path(__file__).resolve().parents[2] / 'launch'
DEADLINE = 30.0  # [s], for a busy machine
ROBOTS = {'left': 'two_link', 'right': 'five_bar'}


@pytest.mark.launch_test
@launch_testing.markers.keep_alive
def generate_test_description() -> LaunchDescription:
    """Launch two robots at once, each in its namespace."""
    return LaunchDescription([
        *(IncludeLaunchDescription(
            str(LAUNCH / f'{stem}.launch.py'),
            launch_arguments={
                'namespace': namespace, 'rviz': 'false', 'command_mode': 'gravity'}.items())
            for namespace, stem in ROBOTS.items()),
        ReadyToTest(),
    ])


class TestTwoRobots(unittest.TestCase):
    """What the nodes say while they run."""

    @classmethod
    def setUpClass(cls):
        rclpy.init()
        cls.node = rclpy.create_node('listener')

    @classmethod
    def tearDownClass(cls):
        cls.node.destroy_node()
        rclpy.shutdown()

    def first(self, kind, topic):
        """Return the first message of a topic."""
        got = []
        subscription = self.node.create_subscription(kind, topic, got.append, 10)
        end = time.monotonic() + DEADLINE
        while not got and time.monotonic() < end:
            rclpy.spin_once(self.node, timeout_sec=0.1)
        self.node.destroy_subscription(subscription)
        self.assertTrue(got, f'no message on {topic} within {DEADLINE} s')
        return got[0]

    def test_gravity_compensation_of_each_robot(self):
        """Each hears its own joint states and commands its own simulator."""
        efforts = {}
        for namespace in ROBOTS:
            message = self.first(JointState, f'/{namespace}/lagdyn/gravity_compensation')
            self.assertEqual(list(message.name), ['joint1', 'joint2'])
            efforts[namespace] = list(message.effort)
            command = self.first(Float64MultiArray, f'/{namespace}/effort_command')
            self.assertEqual(len(command.data), 2)
        self.assertGreater(abs(efforts['left'][0] - efforts['right'][0]), 1.0)

    def test_nothing_is_left_outside_the_namespaces(self):
        self.first(JointState, '/left/joint_states')
        topics = dict(self.node.get_topic_names_and_types())
        self.assertNotIn('/joint_states', topics)
        self.assertNotIn('/effort_command', topics)


@launch_testing.post_shutdown_test()
class TestShutdown(unittest.TestCase):
    """How the processes ended."""

    def test_exit_codes(self, proc_info):
        """robot_state_publisher may end by the signal itself."""
        launch_testing.asserts.assertExitCodes(proc_info, allowable_exit_codes=[0, -2])
