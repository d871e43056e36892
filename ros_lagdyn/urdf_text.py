# SPDX-License-Identifier: Apache-2.0
"""Read the text of a URDF safely, and keep of it what dynamics needs.

Document type declarations are refused, so that no entity is ever expanded and no file that the
text names is ever opened. Links with their inertia and joints are kept, every number as it is
written; drawings and the tags of other programs are not.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ros_lagdyn.errors import UnsupportedJointError, UrdfError, shown

SUPPORTED_KINDS = ('revolute', 'continuous', 'prismatic', 'fixed')
MAX_BYTES = 5_000_000  # a hundred times the largest URDF of a real arm without meshes
MAX_DEPTH = 100
MAX_NUMBER = 1e12  # of any length, mass or moment; joint limits may be as large as they like
PAYLOAD = 'payload'  # name of the link that a payload becomes
MAX_LINKS = 2000  # and as many joints; ten times a humanoid
MAX_ELEMENTS = 100_000  # drawings and tags of other programs included; 50 for each link
PIECE = 1 << 16  # characters that are parsed at once
MAX_NAME = 255  # characters of a name, so that an error that says it can still be read
MAX_DIGITS = 100  # characters of a number; 24 are as exact as one can be

# What dynamics needs of a URDF: tag -> (attributes kept, children kept).
_Schema = Mapping[str, tuple[tuple[str, ...], 'Mapping[str, Any]']]
_POSE: _Schema = {'origin': (('xyz', 'rpy'), {})}
_SCHEMA: _Schema = {
    'link': (('name',), {
        'inertial': ((), {
            **_POSE,
            'mass': (('value',), {}),
            'inertia': (('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), {}),
        }),
    }),
    'joint': (('name', 'type'), {
        **_POSE,
        'parent': (('link',), {}),
        'child': (('link',), {}),
        'axis': (('xyz',), {}),
        'limit': (('lower', 'upper', 'effort', 'velocity'), {}),
        'dynamics': (('damping', 'friction'), {}),
        'mimic': (('joint', 'multiplier', 'offset'), {}),
    }),
}


def read_urdf_text(urdf: str | bytes | os.PathLike[str]) -> str:
    """Return the XML text of a URDF given as a path or as the text itself.

    Raises:
        UrdfError: the file is not there, too large, not UTF-8 text, or empty.
    """
    if isinstance(urdf, bytes):
        return _decode(urdf, 'URDF')
    if isinstance(urdf, str) and (not urdf.strip() or '<' in urdf):
        return _decode(urdf.encode('utf-8', 'surrogatepass'), 'URDF')
    if not isinstance(urdf, (str, os.PathLike)):
        raise UrdfError(f'urdf must be a path or XML text, got {type(urdf).__name__}')
    try:
        path = Path(urdf)
        with path.open('rb') as file:
            raw = file.read(MAX_BYTES + 1)
        return _decode(raw, f'URDF file "{path}"')
    except FileNotFoundError:
        raise UrdfError(f'URDF file "{shown(str(urdf))}" does not exist') from None
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, 'strerror', None) or error
        raise UrdfError(f'URDF file "{shown(str(urdf))}" cannot be read: {reason}') from None


def slim_urdf(text: str) -> str:
    """Return the parts of a URDF text that dynamics needs, after checking their form.

    Raises:
        UrdfError: the text is not a URDF.
    """
    return ElementTree.tostring(_slim(_safe_root(text)), encoding='unicode')


def with_payload(text: str, *, frame: str, mass: float, com: Sequence[float]) -> str:
    """Return a text of slim_urdf() with a point mass fixed onto a link.

    Args:
        text: what slim_urdf() returned.
        frame: name of the link that carries the mass.
        mass: [kg], more than 0.
        com: where the mass is (3,) [m], in the frame of the link.
    """
    robot = ElementTree.fromstring(text)
    taken = {element.get('name') for element in robot}
    name = PAYLOAD
    while name in taken:
        name += '_'
    link = ElementTree.SubElement(robot, 'link', name=name)
    inertial = ElementTree.SubElement(link, 'inertial')
    ElementTree.SubElement(inertial, 'origin', xyz=' '.join(repr(float(x)) for x in com))
    ElementTree.SubElement(inertial, 'mass', value=repr(float(mass)))
    ElementTree.SubElement(
        inertial, 'inertia', dict.fromkeys(('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), '0'))
    joint = ElementTree.SubElement(robot, 'joint', name=name, type='fixed')
    ElementTree.SubElement(joint, 'parent', link=frame)
    ElementTree.SubElement(joint, 'child', link=name)
    return ElementTree.tostring(robot, encoding='unicode')


def _decode(raw: bytes, what: str) -> str:
    if len(raw) > MAX_BYTES:
        raise UrdfError(f'{what} is too large, at most {MAX_BYTES} bytes are read')
    try:
        text = raw.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        raise UrdfError(
            f'{what} is not UTF-8 text: byte {error.start} is {raw[error.start]:#04x}') from None
    if not text.strip():
        raise UrdfError(f'{what} is empty, expected a <robot> element')
    return text


_XACRO_TAG = re.compile(r'\{[^}]*xacro[^}]*\}')


class _RefusingBuilder(ElementTree.TreeBuilder):
    """Build elements, but refuse document types (entity bombs), absurd nesting and numbers.

    What is too much is refused while it is read: nothing of its size is built before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._elements = 0
        self._counts = {'link': 0, 'joint': 0}

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise UrdfError(
            f'URDF: document type declaration <!DOCTYPE {shown(name)}> is refused, because '
            'entities can blow up or name files; remove it')

    def start(self, tag: Any, attrs: dict[Any, Any]) -> ElementTree.Element:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UrdfError(
                f'URDF: elements are nested deeper than {MAX_DEPTH} at <{shown(tag)}>')
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise UrdfError(f'URDF: more than {MAX_ELEMENTS} elements')
        if self._depth == 2 and tag in self._counts:
            self._counts[tag] += 1
            if self._counts[tag] > MAX_LINKS:
                raise UrdfError(f'URDF: more than {MAX_LINKS} {tag}s')
        return super().start(tag, attrs)

    def end(self, tag: str) -> ElementTree.Element:
        self._depth -= 1
        return super().end(tag)


def _safe_root(text: str) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_RefusingBuilder())
    try:
        # As text: an encoding declaration is void, it is decoded already. In pieces: the parser
        # goes through the rest of a piece in which something was refused, and expands entities.
        for start in range(0, len(text), PIECE):
            parser.feed(text[start:start + PIECE])
        root = parser.close()
    except ElementTree.ParseError as error:
        raise UrdfError(f'URDF: malformed XML: {error}') from None
    except (ValueError, LookupError) as error:
        raise UrdfError(f'URDF: XML that cannot be decoded: {error}') from None
    if root.tag != 'robot':
        raise UrdfError(f'URDF: the outermost element is <{shown(root.tag)}>, expected <robot>')
    if any(_XACRO_TAG.match(str(element.tag)) for element in root.iter()):
        raise UrdfError('URDF: this is a xacro file, expand it first: xacro FILE > FILE.urdf')
    return root


def _keep(element: ElementTree.Element, schema: _Schema, path: str) -> Iterable[
        ElementTree.Element]:
    """Yield copies of the children that dynamics needs, without anything else in them."""
    seen = set()
    for child in element:
        if child.tag not in schema:
            continue
        name = child.get('name')
        where = f'{path}<{child.tag}>' if name is None else f'{path}{child.tag} "{shown(name)}"'
        if path and child.tag in seen:
            raise UrdfError(f'{where} stands there twice, expected once')
        seen.add(child.tag)
        attributes, children = schema[child.tag]
        copy = ElementTree.Element(child.tag, {
            key: child.attrib[key] for key in attributes if key in child.attrib})
        copy.extend(list(_keep(child, children, f'{where}: ')))
        _require_attributes(copy, where)
        yield copy


# Attributes without which an element means nothing, as the URDF specification has it.
_REQUIRED = {
    'link': ('name',), 'joint': ('name', 'type'), 'mass': ('value',), 'parent': ('link',),
    'child': ('link',), 'inertia': ('ixx', 'ixy', 'ixz', 'iyy', 'iyz', 'izz'), 'axis': ('xyz',),
    'limit': ('effort', 'velocity'), 'mimic': ('joint',),
}
# What every URDF reader takes for a number. Some drop an <inertial> with any other one silently.
_NUMBER = re.compile(r'[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?')
_NOT_NUMBERS = ('name', 'type', 'link', 'joint')


def _require_attributes(element: ElementTree.Element, where: str) -> None:
    for key in _REQUIRED.get(element.tag, ()):
        if key not in element.attrib:
            raise UrdfError(f'{where}: attribute "{key}" is missing')
    for key, value in element.attrib.items():
        if key in _NOT_NUMBERS:
            _require_name(key, value, where)
            continue
        count = 3 if key in ('xyz', 'rpy') else 1
        words = value.split() if count == 3 else [value]
        if len(words) != count or not all(_is_finite_number(word) for word in words):
            expected = 'a finite number' if count == 1 else f'{count} finite numbers'
            raise UrdfError(f'{where}: {key} must be {expected}, got "{shown(value)}"')
        if element.tag != 'limit' and max(abs(float(word)) for word in words) > MAX_NUMBER:
            raise UrdfError(
                f'{where}: {key} must be at most {MAX_NUMBER:g}, got "{shown(value)}"')


def _require_name(key: str, value: str, where: str) -> None:
    if not value.strip():
        raise UrdfError(f'{where}: attribute "{key}" is empty, expected a name')
    if not value.isprintable():
        raise UrdfError(f'{where}: attribute "{key}" must be printable, got "{shown(value)}"')
    if len(value) > MAX_NAME:
        raise UrdfError(f'{where}: attribute "{key}" must have at most {MAX_NAME} '
                        f'characters, got {len(value)}')


def _is_finite_number(word: str) -> bool:
    return (len(word) <= MAX_DIGITS and _NUMBER.fullmatch(word) is not None
            and isfinite(float(word)))


def _slim(root: ElementTree.Element) -> ElementTree.Element:
    robot = root.get('name') or 'unnamed'
    _require_name('name', robot, '<robot>')
    slim = ElementTree.Element('robot', {'name': robot})
    slim.extend(list(_keep(root, _SCHEMA, '')))
    for tag in ('link', 'joint'):
        for name, times in Counter(element.get('name') for element in slim.findall(tag)).items():
            if times > 1:
                raise UrdfError(f'{tag} "{name}" is defined {times} times, expected once')
    for element in slim.findall('joint'):
        _require_children(element, ('parent', 'child'))
        if element.get('type') not in SUPPORTED_KINDS:
            raise UnsupportedJointError(
                element.get('name', ''), element.get('type', ''), SUPPORTED_KINDS)
    for element in slim.findall('link'):
        for inertial in element.findall('inertial'):
            _require_children(inertial, ('mass', 'inertia'), element)
    if slim.find('link') is None:
        raise UrdfError('URDF: <robot> has no <link>, expected at least two and a joint')
    return slim


def _require_children(element: ElementTree.Element, tags: tuple[str, ...],
                      owner: ElementTree.Element | None = None) -> None:
    named = element if owner is None else owner
    for tag in tags:
        if element.find(tag) is None:
            hint = ' (zeros for a point mass)' if tag == 'inertia' else ''
            raise UrdfError(
                f'{named.tag} "{named.get("name")}": <{element.tag}> needs a <{tag}>{hint}')
