# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 side: parameters, messages, wiring. The only folder that imports ROS; no formulas."""
