# SPDX-License-Identifier: Apache-2.0
"""Several judges at once: one process per card here, or tasks on a Ray cluster. Only this room imports Ray."""
