# SPDX-License-Identifier: Apache-2.0
"""Numbers of a kernel that may be tuned, found in the text, and the edits that give them other values."""
