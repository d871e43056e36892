# SPDX-License-Identifier: Apache-2.0
"""The package is described once, installed whole, and imports only what its layers may."""

import ast
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCES = sorted((CHECKOUT / 'ros_lagdyn').rglob('*.py'))
SHARED_FILES = sorted(
    file.relative_to(CHECKOUT)
    for pattern in (
        'urdf/*.urdf', 'config/*.yaml', 'config/*.rviz', 'config/*.xml', 'launch/*.launch.py')
    for file in CHECKOUT.glob(pattern)
)

# Distribution on PyPI -> rosdep key.
ROSDEP_KEYS = {
    'numpy': 'python3-numpy',
    'pin': 'pinocchio',
    'pytest': 'python3-pytest',
    'pyyaml': 'python3-yaml',
    'sympy': 'python3-sympy',
    'urdf-parser-py': 'urdfdom_py',
}
WITHOUT_ROSDEP_KEY = {
    'mujoco': 'its only key is a pip one, which Ubuntu 24.04 refuses',
    'setuptools': 'comes with the build type ament_python',
}

ROS_MODULES = re.compile(r'rclpy|launch\w*|ros2\w+|tf2_\w+|rosbag2\w*|\w+_(msgs|srvs|interfaces)')


def setup_arguments() -> dict[str, object]:
    """Return the arguments of setup() in setup.py that are literals."""
    tree = ast.parse((CHECKOUT / 'setup.py').read_text())
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'setup'
    )
    arguments = {}
    for keyword in call.keywords:
        try:
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return arguments


def rosdep_keys(requirements: list[str]) -> set[str]:
    """Return the rosdep keys of requirements such as 'ros-jazzy-rclpy[fastrtps]>=7'."""
    names = {re.match(r'[\w.-]+', line).group().lower() for line in requirements}
    return {
        ROSDEP_KEYS.get(name) or re.sub('^ros-jazzy-', '', name).replace('-', '_')
        for name in names
        if name not in WITHOUT_ROSDEP_KEY
    }


def package_xml() -> ElementTree.Element:
    return ElementTree.parse(CHECKOUT / 'package.xml').getroot()


def dependencies(tag: str) -> list[str]:
    return [element.text for element in package_xml().findall(tag)]


def imported_modules(source: str) -> Iterator[str]:
    """Yield the full name of each module that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
            name = node.args[0]
            if function in ('import_module', '__import__') and isinstance(name, ast.Constant):
                yield str(name.value)


def importers(module: str) -> set[str]:
    """Return the sources that import a module whose top-level name matches a pattern."""
    return {
        str(source.relative_to(CHECKOUT / 'ros_lagdyn'))
        for source in SOURCES
        if any(
            re.fullmatch(module, name.split('.')[0])
            for name in imported_modules(source.read_text())
        )
    }


def test_package_xml_has_what_format_3_requires():
    """REP 149: name, version, description, maintainer with an address, licence."""
    package = package_xml()
    assert package.tag == 'package'
    assert package.get('format') == '3'
    assert package.findtext('name') == 'ros_lagdyn'
    assert re.fullmatch(r'\d+\.\d+\.\d+', package.findtext('version'))
    assert package.findtext('description').strip()
    assert '@' in package.find('maintainer').get('email')
    assert package.findtext('license') == 'Apache-2.0'
    assert package.findtext('export/build_type') == 'ament_python'


def test_licence_is_there():
    """The file that package.xml names holds the text of the licence."""
    licence = package_xml().find('license')
    text = (CHECKOUT / licence.get('file')).read_text()
    assert 'Apache License' in text
    assert 'Version 2.0, January 2004' in text


def test_no_dependency_is_declared_twice():
    tags = ('depend', 'exec_depend', 'build_depend', 'build_export_depend', 'buildtool_depend')
    keys = [key for tag in (*tags, 'test_depend') for key in dependencies(tag)]
    assert len(keys) == len(set(keys))


def test_what_pip_installs_is_declared_for_rosdep():
    """Each requirement of setup.py has its key in package.xml, in the tag of its purpose."""
    arguments = setup_arguments()
    extras = arguments['extras_require']
    needed = rosdep_keys(arguments['install_requires'] + extras['ros'])
    assert needed <= set(dependencies('exec_depend')) | set(dependencies('depend'))
    # The first two come with ROS 2 alone, the third with rclpy.
    only_ros = {'launch_testing', 'launch_testing_ros', 'rosgraph_msgs'}
    assert rosdep_keys(extras['test']) | only_ros == set(dependencies('test_depend'))


def test_every_requirement_has_a_tested_range():
    arguments = setup_arguments()
    requirements = sum(arguments['extras_require'].values(), arguments['install_requires'])
    without = [line for line in requirements if not re.search(r'>=[\d.]+,<[\d.]+(;.*)?$', line)]
    assert without == ['setuptools']


def test_the_version_is_the_same_everywhere():
    """setup.py, package.xml and the newest entry of the changelog agree."""
    version = setup_arguments()['version']
    assert package_xml().findtext('version') == version
    changelog = (CHECKOUT / 'CHANGELOG.rst').read_text()
    released = re.findall(r'^(\d+\.\d+\.\d+)(?: \(.+\))?\n-+$', changelog, re.MULTILINE)
    assert released[:1] == [version]


def test_setup_and_package_xml_name_the_same_maintainer():
    maintainer = package_xml().find('maintainer')
    arguments = setup_arguments()
    assert arguments['maintainer'] == maintainer.text
    assert arguments['maintainer_email'] == maintainer.get('email')


def test_every_arm_has_its_config():
    """One stem names the URDF and the config."""
    arms = {file.stem for file in SHARED_FILES if file.suffix == '.urdf'}
    configs = {file.stem for file in SHARED_FILES if file.suffix == '.yaml'}
    assert arms
    assert configs == arms | {'lagdyn', 'controllers'}


@pytest.mark.parametrize('file', [f for f in SHARED_FILES if f.suffix == '.yaml'], ids=str)
def test_config_is_a_parameter_file(file):
    """ROS 2 reads the values in any namespace, for all nodes or for one by its name."""
    content = yaml.safe_load((CHECKOUT / file).read_text())
    for section, values in content.items():
        assert re.fullmatch(r'/\*\*(/\w+)?', section)
        assert set(values) == {'ros__parameters'}
    if file.stem != 'controllers':
        gravity = content['/**']['ros__parameters']['gravity']
        assert [type(value) for value in gravity] == [float] * 3


@pytest.fixture
def share() -> Path:
    index = pytest.importorskip('ament_index_python', reason='needs ament_index_python')
    if not os.environ.get('AMENT_PREFIX_PATH'):
        pytest.skip('AMENT_PREFIX_PATH is not set: no ament index to look in')
    return Path(index.get_package_share_directory('ros_lagdyn'))


@pytest.mark.parametrize('file', [Path('package.xml'), *SHARED_FILES], ids=str)
def test_file_is_installed_in_the_share_folder(share, file):
    """The ament index finds the package, and the file in it is the one of the checkout."""
    assert (share / file).read_bytes() == (CHECKOUT / file).read_bytes()


def test_only_the_node_imports_ros():
    """The maths runs without ROS."""
    files = importers(ROS_MODULES.pattern)
    assert {file for file in files if not file.startswith('ros_node/')} == set()


def test_only_one_file_imports_pinocchio():
    assert importers('pinocchio') <= {'pinocchio_dynamics.py'}


def test_only_one_file_imports_the_urdf_parser():
    assert importers('urdf_parser_py') <= {'urdf_model.py'}


def test_every_kind_of_import_is_seen():
    """The three rules above would notice."""
    source = (
        'import rclpy.node as n\n'
        'def f():\n'
        '    from sensor_msgs.msg import JointState\n'
        "    importlib.import_module('launch')\n"
        'from . import pinocchio_dynamics\n'
    )
    modules = list(imported_modules(source))
    assert sorted(modules) == ['launch', 'rclpy.node', 'sensor_msgs.msg']
    assert all(ROS_MODULES.fullmatch(module.split('.')[0]) for module in modules)


def test_every_source_names_its_licence():
    """The SPDX line is the first, or the second after a shebang."""
    files = [
        *SOURCES,
        *(CHECKOUT / file for file in SHARED_FILES if file.suffix not in ('.urdf', '.xml')),
        *(CHECKOUT / 'test').glob('*.py'),
        *(CHECKOUT / 'benchmark').glob('*.py'),
        *(CHECKOUT / 'scripts').iterdir(),
        CHECKOUT / 'setup.py',
    ]
    line = '# SPDX-License-Identifier: Apache-2.0'
    assert [str(file) for file in files if line not in file.read_text().splitlines()[:2]] == []
