# SPDX-License-Identifier: Apache-2.0
"""Adds to a URDF what ros2_control needs: a hardware whose joints take torques.

The rest of the text stays as it is, so a plain URDF serves the controllers too, without xacro.
"""

from __future__ import annotations

import os
import re
from xml.sax.saxutils import escape, quoteattr

from ros_lagdyn.errors import InvalidArgumentError, UrdfError
from ros_lagdyn.joint_stops import home_position
from ros_lagdyn.urdf_model import arm_from_slim_urdf
from ros_lagdyn.urdf_text import read_urdf_text, slim_urdf

MOCK_HARDWARE = 'mock_components/GenericSystem'  # comes with ros2_control, moves nothing

# Comments and CDATA may contain tags that are none.
_NO_MARKUP = re.compile(r'<!--.*?-->|<!\[CDATA\[.*?\]\]>', re.DOTALL)
_END = re.compile(r'</robot\s*>')
_OVERLAY = re.compile(r'<ros2_control[\s>/]')


def with_ros2_control(urdf: str | bytes | os.PathLike[str], plugin: str = MOCK_HARDWARE) -> str:
    """Return a URDF text with a <ros2_control> element at its end.

    Each independent joint gets the command interface effort and the state interfaces position,
    velocity and effort. A text that has a <ros2_control> already is returned unchanged.

    Args:
        urdf: path or XML text of the URDF.
        plugin: name of the hardware plugin.

    Raises:
        UrdfError: the text is not a URDF, or not a possible arm.
        InvalidArgumentError: the name of the plugin is empty.
    """
    if not plugin.strip():
        raise InvalidArgumentError('plugin must be the name of a hardware plugin, got ""')
    urdf_text = read_urdf_text(urdf)
    arm = arm_from_slim_urdf(slim_urdf(urdf_text))
    # Blanked to the same length: positions in it are positions in the text.
    markup = _NO_MARKUP.sub(lambda match: ' ' * len(match.group()), urdf_text)
    if _OVERLAY.search(markup):
        return urdf_text
    ends = list(_END.finditer(markup))
    if not ends:
        raise UrdfError('URDF: </robot> is missing')
    end = ends[-1].start()
    lines = [
        f'  <ros2_control name={quoteattr(arm.name)} type="system">',
        '    <hardware>',
        f'      <plugin>{escape(plugin)}</plugin>',
        '    </hardware>',
    ]
    for joint, position in zip(
            arm.independent_joints, home_position(arm).tolist(), strict=True):
        # An effort of 0 means here that no limit is known; newer controller managers would
        # enforce it.
        limits = '' if joint.limit.effort > 0.0 else '<limits enable="false"/>'
        lines += [
            f'    <joint name={quoteattr(joint.name)}>',
            f'      <command_interface name="effort">{limits}</command_interface>',
            '      <state_interface name="position">',
            f'        <param name="initial_value">{position!r}</param>',
            '      </state_interface>',
            '      <state_interface name="velocity"/>',
            '      <state_interface name="effort"/>',
            '    </joint>',
        ]
    lines.append('  </ros2_control>\n')
    return urdf_text[:end] + '\n'.join(lines) + urdf_text[end:]
