# SPDX-License-Identifier: Apache-2.0
"""The README's tables, code and commands against the code that they describe."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

import ros_lagdyn
from ros_lagdyn import command_line, joint_state_table, load_arm, shipped_urdf
from ros_lagdyn.closed_form_dynamics import ClosedFormDynamics
from ros_lagdyn.laws import LAW_NAMES
from ros_lagdyn.shipped_arms import SHIPPED_ARMS, STEMS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / 'README.md').read_text(encoding='utf-8')
PYTHON_BLOCKS = re.findall(r'^```python\n(.*?)^```$', README, flags=re.DOTALL | re.MULTILINE)
# An indented line, without its comment.
COMMANDS = [line.split('  #')[0].strip() for line in re.findall(r'^ {4}(\S.*)$', README, re.M)]


def table(first_header: str) -> list[list[str]]:
    """Return the cells of the table whose first column has this header, without the headers."""
    lines = README.splitlines()
    (start,) = (number for number, line in enumerate(lines)
                if line.startswith('|') and line.split('|')[1].strip() == first_header)
    rows = []
    for line in lines[start + 2:]:
        if not line.startswith('|'):
            break
        rows.append([cell.strip() for cell in line.strip().strip('|').split('|')])
    return rows


def in_backticks(text: str) -> list[str]:
    """Return what stands between single backticks."""
    return re.findall(r'`([^`]+)`', re.sub(r'^```.*?^```$', '', text, flags=re.M | re.DOTALL))


# -- the arms --------------------------------------------------------------------------------


def test_table_of_arms_lists_the_shipped_ones() -> None:
    """Stem, title and documents are those of the code, in its order."""
    rows = table('stem')
    assert [in_backticks(row[0]) for row in rows] == [[stem] for stem in STEMS]
    assert [row[1] for row in rows] == [arm.title for arm in SHIPPED_ARMS]
    assert [row[2] for row in rows] == [arm.documents for arm in SHIPPED_ARMS]


@pytest.mark.parametrize('stem', STEMS)
def test_table_of_arms_has_the_joints_of_the_urdf(stem: str) -> None:
    """The independent joints are those of the loaded arm, in order."""
    (row,) = (row for row in table('stem') if in_backticks(row[0]) == [stem])
    assert tuple(in_backticks(row[3])) == load_arm(shipped_urdf(stem)).joints


@pytest.mark.parametrize('stem', STEMS)
def test_each_stem_names_a_urdf_a_formula_and_a_config(stem: str) -> None:
    """One stem everywhere, as the README promises."""
    for pattern in ('urdf/<stem>.urdf', 'ros_lagdyn/closed_form/<stem>.py', 'config/<stem>.yaml'):
        assert f'`{pattern}`' in README
        assert (ROOT / pattern.replace('<stem>', stem)).is_file()


# -- the node --------------------------------------------------------------------------------


def shown(default: object) -> str:
    """Return a default as the README writes it."""
    if default in ('', []):
        return 'empty'
    return str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize(('header', 'module', 'name'), [
    ('parameter', 'node_parameters', 'NODE_PARAMETERS'),
    ('simulator parameter', 'arm_simulator', 'PARAMETERS'),
])
def test_tables_of_parameters_are_those_of_the_code(header: str, module: str, name: str) -> None:
    """Name, type, default, meaning and allowed values, in the code's order."""
    pytest.importorskip('rclpy', reason='needs rclpy')
    specs = getattr(importlib.import_module(f'ros_lagdyn.ros_node.{module}'), name)
    expected = [
        [f'`{spec.name}`', spec.type.name.lower().replace('_array', '[]'), shown(spec.default),
         spec.description + (f' ({spec.allowed})' if spec.allowed else '')] for spec in specs]
    assert table(header) == expected


def test_table_of_published_topics_is_that_of_the_code() -> None:
    """Topic and type of each, in the code's order, and /diagnostics."""
    pytest.importorskip('rclpy', reason='needs rclpy')
    from ros_lagdyn.ros_node.outputs import TOPICS

    rows = {in_backticks(row[0])[0]: row[1] for row in table('published topic')}
    assert rows == TOPICS | {'/diagnostics': 'diagnostic_msgs/DiagnosticArray'}


def test_decisions_about_joint_states_are_those_of_the_code() -> None:
    """docs/joint_states.md has the table that the code is documented with."""
    text = (ROOT / 'docs' / 'joint_states.md').read_text(encoding='utf-8')
    decided = [line for line in (joint_state_table.__doc__ or '').splitlines()
               if line.startswith('|')]
    assert len(decided) > 10
    assert [line for line in text.splitlines() if line.startswith('|')] == decided


# -- Python ----------------------------------------------------------------------------------


def test_there_is_python_to_run() -> None:
    """The ten lines are there."""
    assert PYTHON_BLOCKS
    assert all(len(block.splitlines()) <= 12 for block in PYTHON_BLOCKS)


@pytest.mark.parametrize('block', PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_python_runs_as_it_stands(block: str) -> None:
    """Copied into a file and run, every block works, and prints the agreement it promises."""
    done = subprocess.run(
        [sys.executable, '-W', 'error', '-c', block], cwd=ROOT, text=True, capture_output=True,
        timeout=60, check=False, env={**os.environ, 'PYTHONPATH': str(ROOT)})
    assert (done.returncode, done.stderr) == (0, '')
    if 'cross_check' in block:
        assert float(done.stdout) < 1e-12


def test_names_of_the_api_exist() -> None:
    """Whatever the table of the API names can be imported or called."""
    names = [name for row in table('what') for name in in_backticks(row[-1])]
    assert len(names) >= 10
    five_bar = ros_lagdyn.load_dynamics(shipped_urdf('five_bar'))
    for name in names:
        if name == 'load_dynamics(urdf).formula.design_conditions':
            assert five_bar.formula.design_conditions
        elif name.startswith('arm.'):
            assert hasattr(ClosedFormDynamics, re.match(r'arm\.(\w+)', name)[1])
        elif '.' in name:
            module, attribute = name.rsplit('.', 1)
            __import__(f'ros_lagdyn.{module}')
            assert reduce(getattr, [*module.split('.'), attribute], ros_lagdyn)
        else:
            assert name.split('(')[0] in ros_lagdyn.__all__


def test_errors_that_are_named_exist() -> None:
    """Names of errors are names in the package."""
    for name in set(re.findall(r'`(\w+Error)`', README)):
        assert issubclass(getattr(ros_lagdyn, name), ros_lagdyn.LagdynError)


def test_number_of_laws() -> None:
    """The README counts the laws rightly."""
    assert re.search(r'\b[Tt]en physical laws\b', README)
    assert len(LAW_NAMES) == 10


# -- commands --------------------------------------------------------------------------------


@pytest.mark.parametrize('command', [line for line in COMMANDS if line.startswith('lagdyn ')])
def test_lagdyn_command_lines_are_possible(command: str) -> None:
    """Each has a subcommand and options that the parser knows."""
    options = command_line._parser().parse_args(shlex.split(command)[1:])
    urdf = getattr(options, 'urdf', [])
    for name in [urdf] if isinstance(urdf, str) else urdf:
        assert name in STEMS or name.endswith('.urdf')


def test_lagdyn_is_shown() -> None:
    """Both subcommands and the JSON are there to be copied."""
    shown = '\n'.join(COMMANDS)
    for piece in ('lagdyn check ', '--json', '--states', 'lagdyn arms'):
        assert piece in shown


def test_the_two_commands_are_scripts() -> None:
    """./scripts/demo and ./scripts/test are there and can be run."""
    scripts = {line.split()[0] for line in COMMANDS if line.startswith('./')}
    assert scripts == {'./scripts/demo', './scripts/test'}
    for script in scripts:
        assert os.access(ROOT / script, os.X_OK)


def test_exit_codes() -> None:
    """The sentence about exit codes is the truth."""
    codes = command_line.GOOD, command_line.DISAGREES, command_line.BAD_INPUT
    assert codes == (0, 1, 2)
    sentence = ' '.join(README.split())
    assert re.search(r'exit code is 0 when everything agrees, 1 when something disagrees, '
                     r'2 when an input is bad', sentence)


def launch_arguments(file: str) -> dict[str, dict[str, object]]:
    """Return what a launch file declares: by name the literals of each argument."""
    tree = ast.parse((ROOT / 'launch' / file).read_text(encoding='utf-8'))
    return {
        call.args[0].value: {keyword.arg: ast.literal_eval(keyword.value)
                             for keyword in call.keywords
                             if isinstance(keyword.value, ast.Constant)}
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, 'id', '') == 'DeclareLaunchArgument'}


def test_table_of_launch_arguments_is_that_of_the_launch_file() -> None:
    """Name, default and meaning, in its order; what is no literal depends on the arm."""
    expected = [
        [f'`{name}`', str(literals.get('default_value', "the arm's own")) or 'empty',
         literals['description']]
        for name, literals in launch_arguments('lagdyn.launch.py').items()]
    assert table('launch argument') == expected


def test_launch_commands_name_files_and_arguments() -> None:
    """`ros2 launch ros_lagdyn <file> <argument>:=<value> ...` can be run."""
    commands = re.findall(r'ros2 launch ros_lagdyn (\S+\.launch\.py)((?: \w+:=\S+)*)', README)
    assert commands
    known = set().union(*(launch_arguments(path.name) for path in (ROOT / 'launch').iterdir()
                          if path.name.endswith('.launch.py')))
    for file, arguments in commands:
        assert (ROOT / 'launch' / file).is_file()
        for name, value in re.findall(r'(\w+):=(\w+)', arguments):
            assert name in known
            assert name != 'arm' or value in STEMS


def test_links_and_files_that_are_named_exist() -> None:
    """Every relative link, and every file of the checkout in backticks, is there."""
    linked = [target for target in re.findall(r'\]\(([^)\s]+)\)', README) if '://' not in target]
    named = [word for text in in_backticks(README) for word in text.split()
             if re.fullmatch(r'(\./)?(docs|test|scripts|benchmark|config|urdf|launch)/[\w./]+',
                             word)]
    assert linked and named
    for target in (*linked, *named):
        assert (ROOT / target.split('#')[0]).exists(), f'README names {target}'
