# SPDX-License-Identifier: Apache-2.0
"""The database of one corpus: its schema, how it is built and kept fresh, and its state."""
