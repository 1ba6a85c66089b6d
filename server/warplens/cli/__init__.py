# SPDX-License-Identifier: Apache-2.0
"""The command line: the same service, for terminals and CI."""
