# SPDX-License-Identifier: Apache-2.0
"""Installs ros_lagdyn as an ament_python package and as a plain Python package."""

from glob import glob

from setuptools import find_packages, setup

PACKAGE = 'ros_lagdyn'
SHARE = f'share/{PACKAGE}'

setup(
    name=PACKAGE,
    version='0.2.0',
    description='Robot arm dynamics by formula, Lagrangian recipe and Pinocchio, compared.',
    license='Apache-2.0',
    maintainer='ros_lagdyn maintainers',
    maintainer_email='ros-lagdyn-maintainers@example.com',
    packages=find_packages(include=[PACKAGE, f'{PACKAGE}.*']),
    package_data={PACKAGE: ['py.typed']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{PACKAGE}']),
        (SHARE, ['package.xml']),
        (f'{SHARE}/urdf', sorted(glob('urdf/*.urdf'))),
        (f'{SHARE}/config', sorted(
            glob('config/*.yaml') + glob('config/*.rviz') + glob('config/*.xml'))),
        (f'{SHARE}/launch', sorted(glob('launch/*.launch.py'))),
    ],
    zip_safe=False,
    python_requires='>=3.10',
    install_requires=[
        'setuptools',
        'numpy>=1.21.5,<3',
        'pin>=4.0,<5',
        'urdf-parser-py>=0.0.4,<0.1',
    ],
    extras_require={
        # ROS 2 Jazzy for machines on which no ROS 2 is installed.
        'ros': [
            'ros-jazzy-rclpy[fastrtps]>=7.1.6,<7.2',
            'ros-jazzy-diagnostic-msgs>=5.3.6,<5.4',
            'ros-jazzy-geometry-msgs>=5.3.6,<5.4',
            'ros-jazzy-lifecycle-msgs>=2.0.3,<2.1',
            'ros-jazzy-sensor-msgs>=5.3.6,<5.4',
            'ros-jazzy-std-msgs>=5.3.6,<5.4',
            'ros-jazzy-std-srvs>=5.3.6,<5.4',
            'ros-jazzy-trajectory-msgs>=5.3.6,<5.4',
            'ros-jazzy-visualization-msgs>=5.3.6,<5.4',
        ],
        # MuJoCo 4 needs Python 3.11; older releases refuse the pendulum's massless gimbal.
        # pytest below 9: the pytest plugin of launch_testing does not load in a newer one.
        'test': [
            'pytest>=7.4,<9',
            'PyYAML>=6.0,<7',
            'mujoco>=4,<5; python_version >= "3.11"',
            'sympy>=1.12,<2',
        ],
        # Its wheels are for few Pythons and for Linux on x86_64; without it the fuzzer of URDFs
        # has nothing but a seed to choose by.
        'fuzz': [
            'atheris>=3,<4; python_version >= "3.11" and python_version < "3.14" '
            'and sys_platform == "linux" and platform_machine == "x86_64"',
        ],
        'lint': [
            'mypy>=1.14,<3',
            'ruff>=0.13,<0.18',
        ],
    },
    entry_points={
        'console_scripts': [
            f'arm_simulator = {PACKAGE}.ros_node.arm_simulator:main',
            f'dynamics_node = {PACKAGE}.ros_node.dynamics_node:main',
            f'lagdyn = {PACKAGE}.command_line:main',
        ],
    },
)
