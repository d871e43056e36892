# SPDX-License-Identifier: Apache-2.0
"""Parameters as data: declared, described, checked, and all or nothing."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from math import inf, nan
from typing import Any

import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed: no parameters to declare')

import ros_graph  # noqa: E402, F401 (a ROS domain of our own)
from rcl_interfaces.msg import SetParametersResult  # noqa: E402
from rclpy.context import Context  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402

from ros_lagdyn.errors import InvalidArgumentError, LagdynError  # noqa: E402
from ros_lagdyn.ros_node.arm_simulator import PARAMETERS as SIMULATOR_PARAMETERS  # noqa: E402
from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS, WITHOUT_MODEL  # noqa: E402
from ros_lagdyn.ros_node.parameters import Parameters, ParameterSpec  # noqa: E402

FLAG = ParameterSpec(name='flag', default=True, description='A flag.')
COUNT = ParameterSpec(name='count', default=3, minimum=0, maximum=9, description='A count.')
RATE = ParameterSpec(name='rate', default=2.5, minimum=0.5, maximum=10.0, description='A rate.')
FREE = ParameterSpec(name='free', default=1.0, description='Any number.')
WORD = ParameterSpec(name='word', default='', description='Any text.')
COLOUR = ParameterSpec(
    name='colour', default='red', choices=('red', 'green'), description='A colour.')
MODE = ParameterSpec(name='mode', default='off', choices=('off', 'on_top'), description='A mode.')
VECTOR = ParameterSpec(
    name='vector', default=[1.0, 2.0, 3.0], entries=float, length=3, minimum=-5.0, maximum=5.0,
    description='Three numbers.')
NUMBERS = ParameterSpec(name='numbers', default=[], entries=float, description='Some numbers.')
NAMES = ParameterSpec(name='names', default=[], entries=str, description='Some names.')
FIXED = ParameterSpec(name='fixed', default=True, read_only=True, description='Never changes.')
SPECS = (FLAG, COUNT, RATE, FREE, WORD, COLOUR, MODE, VECTOR, NUMBERS, NAMES, FIXED)
DEFAULTS = {spec.name: spec.default for spec in SPECS}

MakeNode = Callable[..., Node]


@pytest.fixture(scope='module')
def context() -> Iterator[Context]:
    context = Context()
    rclpy.init(context=context)
    yield context
    rclpy.try_shutdown(context=context)


@pytest.fixture
def make_node(context: Context) -> Iterator[MakeNode]:
    """Return what makes a node, with values given at the start."""
    nodes = []

    def make(**given: Any) -> Node:
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        nodes.append(Node('node', context=context, parameter_overrides=overrides,
                          start_parameter_services=False, enable_rosout=False))
        return nodes[-1]

    yield make
    for node in nodes:
        node.destroy_node()


def set_one(node: Node, name: str, value: Any, kind: Parameter.Type | None = None
            ) -> SetParametersResult:
    return node.set_parameters([Parameter(name, kind, value)])[0]


def value_of(node: Node, name: str) -> Any:
    value = node.get_parameter(name).value
    return list(value) if isinstance(value, array) else value


def test_defaults_are_in_force_and_stored(make_node: MakeNode) -> None:
    node = make_node()
    assert dict(Parameters(node, SPECS).values) == DEFAULTS
    assert {name: value_of(node, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(('name', 'value'), [
    ('flag', False), ('count', 9), ('rate', 10.0), ('free', -1e200), ('word', 'off'),
    ('colour', 'green'), ('mode', 'on_top'), ('vector', [5.0, -5.0, 0.0]), ('numbers', [1.5]),
    ('names', ['a', 'b']), ('fixed', False)])
def test_a_value_given_at_the_start_counts(make_node: MakeNode, name: str, value: Any) -> None:
    node = make_node(**{name: value})
    assert dict(Parameters(node, SPECS).values) == {**DEFAULTS, name: value}
    assert value_of(node, name) == value


BAD = [
    ('count', 10), ('count', -1), ('rate', 0.4), ('rate', 11.0), ('rate', nan), ('rate', inf),
    ('free', nan), ('free', -inf), ('colour', 'blue'), ('colour', ''), ('mode', 'on'),
    ('vector', [1.0, 2.0]), ('vector', [1.0, 2.0, 6.0]), ('vector', [1.0, 2.0, nan]),
    ('numbers', [inf]),
]
WRONG_TYPE = [
    ('flag', 1), ('flag', 'true'), ('count', 3.0), ('count', True), ('rate', True),
    ('rate', 'fast'), ('word', 5), ('colour', 1), ('mode', 5), ('vector', 1.0),
    ('vector', [True, False, True]), ('vector', ['a', 'b', 'c']), ('names', [1.0]),
    ('names', 'a'), ('mode', True), ('vector', '[1, 2'), ('vector', '[1, 2, "c"]'),
    ('names', '["a", 1]'), ('numbers', '{"1": 2}'), ('numbers', '5'),
]
MEANT = [  # as YAML and ROS's tools read 3, 1e-1, [1, 2, 3], [0, 0, 4.5] and []
    ('rate', 3, 3.0), ('rate', '3.5', 3.5), ('vector', [1, 2, 3], [1.0, 2.0, 3.0]),
    ('vector', '[0, 0, 4.5]', [0.0, 0.0, 4.5]), ('numbers', '[]', []),
    ('names', '["a", "b"]', ['a', 'b']),
]


@pytest.mark.parametrize(('name', 'value'), BAD + WRONG_TYPE)
def test_a_bad_value_at_the_start_is_one_sentence_that_names_it(
        make_node: MakeNode, name: str, value: Any) -> None:
    node = make_node(**{name: value})
    with pytest.raises(InvalidArgumentError, match='parameter') as refused:
        Parameters(node, SPECS)
    assert name in str(refused.value)


@pytest.mark.parametrize(('name', 'value'), BAD + WRONG_TYPE)
def test_a_bad_value_later_is_refused_and_the_old_one_stays(
        make_node: MakeNode, name: str, value: Any) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    kind = node.describe_parameter(name).type
    result = set_one(node, name, value)
    assert not result.successful
    assert name in result.reason
    assert dict(parameters.values) == DEFAULTS
    assert value_of(node, name) == DEFAULTS[name]
    assert node.describe_parameter(name).type == kind


@pytest.mark.parametrize(('name', 'value'), [
    ('flag', False), ('count', 0), ('rate', 0.5), ('free', 7.0), ('word', 'text'),
    ('colour', 'green'), ('mode', 'on_top'), ('vector', [0.0, 0.0, 0.0]), ('numbers', [1.0, 2.0]),
    ('names', ['a'])])
def test_a_good_value_later_is_asked_for_once_and_counts(
        make_node: MakeNode, name: str, value: Any) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    asked = []
    parameters.accept = asked.append
    assert set_one(node, name, value).successful
    assert asked == [{**DEFAULTS, name: value}]
    assert dict(parameters.values) == {**DEFAULTS, name: value}
    assert value_of(node, name) == value


def test_lists_can_be_emptied_again(make_node: MakeNode) -> None:
    node = make_node(numbers=[1.0], names=['a'])
    parameters = Parameters(node, SPECS)
    assert set_one(node, 'numbers', [], Parameter.Type.DOUBLE_ARRAY).successful
    assert set_one(node, 'names', [], Parameter.Type.STRING_ARRAY).successful
    assert dict(parameters.values) == DEFAULTS


def test_values_are_plain_lists_whatever_rclpy_makes_of_them(make_node: MakeNode) -> None:
    """Lists compare as a whole; arrays of rclpy do not equal lists."""
    node = make_node()
    parameters = Parameters(node, SPECS)
    set_one(node, 'vector', array('d', [3.0, 2.0, 1.0]))
    assert type(parameters.values['vector']) is list


def test_what_accept_refuses_stays_as_it_was(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)

    def refuse(values: Any) -> None:
        raise LagdynError(f'word cannot be {values["word"]}')

    parameters.accept = refuse
    result = set_one(node, 'word', 'this')
    assert (result.successful, result.reason) == (False, 'word cannot be this')
    assert dict(parameters.values) == DEFAULTS
    assert value_of(node, 'word') == ''
    # Also where it comes in another type, which rclpy has noted by then.
    assert not set_one(node, 'rate', 3).successful
    assert node.describe_parameter('rate').type == Parameter.Type.DOUBLE.value
    assert value_of(node, 'rate') == 2.5


def test_several_at_once_are_taken_together_or_not_at_all(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    asked = []
    parameters.accept = asked.append
    good = [Parameter('rate', value=5.0), Parameter('word', value='x')]
    result = node.set_parameters_atomically([*good, Parameter('colour', value='blue')])
    assert not result.successful and 'colour' in result.reason
    assert asked == [] and dict(parameters.values) == DEFAULTS
    for spec in SPECS:
        assert node.describe_parameter(spec.name).type == spec.type.value, spec.name
    assert node.set_parameters_atomically(good).successful
    assert asked == [{**DEFAULTS, 'rate': 5.0, 'word': 'x'}]


def test_a_read_only_parameter_cannot_change(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    result = set_one(node, 'fixed', False)
    assert not result.successful and result.reason
    assert parameters.values['fixed'] is True


@pytest.mark.parametrize('start', [True, False])
@pytest.mark.parametrize(('name', 'given', 'meant'), MEANT)
def test_numbers_are_taken_as_they_were_meant(
        make_node: MakeNode, name: str, given: Any, meant: Any, start: bool) -> None:
    node = make_node(**{name: given}) if start else make_node()
    parameters = Parameters(node, SPECS)
    if not start:
        assert set_one(node, name, given).successful
    for value in (parameters.values[name], value_of(node, name)):
        assert value == meant and str(value) == str(meant)


@pytest.mark.parametrize('kind', [
    Parameter.Type.BOOL_ARRAY, Parameter.Type.DOUBLE_ARRAY, Parameter.Type.STRING_ARRAY])
@pytest.mark.parametrize(('name', 'given'), [('numbers', [1.5]), ('names', ['a'])])
def test_an_empty_list_is_one_of_any_type(
        make_node: MakeNode, name: str, given: list[Any], kind: Parameter.Type) -> None:
    """ROS's tools make an empty list of booleans of it."""
    node = make_node(**{name: given})
    parameters = Parameters(node, SPECS)
    assert set_one(node, name, [], kind).successful
    assert parameters.values[name] == []
    assert node.get_parameter(name).type_ == next(
        spec.type for spec in SPECS if spec.name == name)


def test_a_parameter_cannot_be_taken_away(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    result = set_one(node, 'rate', None, Parameter.Type.NOT_SET)
    assert not result.successful and 'rate' in result.reason
    assert dict(parameters.values) == DEFAULTS


@pytest.mark.parametrize('start', [True, False])
def test_off_in_yaml_is_the_word(make_node: MakeNode, start: bool) -> None:
    """ROS's tools read off as false; where off is a choice, the word was meant."""
    node = make_node(mode=False) if start else make_node(mode='on_top')
    parameters = Parameters(node, SPECS)
    if not start:
        assert set_one(node, 'mode', False).successful
    assert parameters.values['mode'] == 'off'
    assert value_of(node, 'mode') == 'off'
    assert set_one(node, 'mode', 'on_top').successful
    assert parameters.values['mode'] == 'on_top'


def test_false_is_no_word_elsewhere(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    assert not set_one(node, 'colour', False).successful
    assert not set_one(node, 'word', False).successful
    assert dict(parameters.values) == DEFAULTS


def test_parameters_of_others_are_none_of_our_business(make_node: MakeNode) -> None:
    node = make_node()
    parameters = Parameters(node, SPECS)
    asked = []
    parameters.accept = asked.append
    node.declare_parameter('stranger', 1)
    assert set_one(node, 'stranger', 2).successful
    assert asked == []


@pytest.mark.parametrize('specs', [NODE_PARAMETERS, SIMULATOR_PARAMETERS], ids=['lagdyn', 'arm'])
def test_each_parameter_is_described(make_node: MakeNode, specs: tuple[ParameterSpec, ...]
                                     ) -> None:
    """Name, description, range, whether it can change: all is shown by `ros2 param describe`."""
    node = make_node()
    Parameters(node, specs)
    assert len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        described = node.describe_parameter(spec.name)
        assert described.description == spec.description
        assert described.description.endswith('.')
        assert described.read_only == spec.read_only
        assert described.additional_constraints == spec.allowed
        if spec.entries is None and isinstance(spec.default, float):
            shown = described.floating_point_range[0]
            assert (shown.from_value, shown.to_value) == (spec.minimum, spec.maximum)
        elif spec.entries is None and type(spec.default) is int:
            shown = described.integer_range[0]
            assert (shown.from_value, shown.to_value) == (spec.minimum, spec.maximum)
        assert spec.refusal(spec.default) is None


def test_what_needs_no_new_model_exists() -> None:
    assert {spec.name for spec in NODE_PARAMETERS} >= WITHOUT_MODEL


@pytest.mark.parametrize(('spec', 'allowed'), [
    (FLAG, ''), (COUNT, 'at least 0, at most 9'), (RATE, 'at least 0.5, at most 10'), (FREE, ''),
    (COLOUR, 'one of red, green'), (VECTOR, '3 numbers, at least -5, at most 5'), (NAMES, '')])
def test_what_is_allowed_is_said_in_words(spec: ParameterSpec, allowed: str) -> None:
    assert spec.allowed == allowed
