# SPDX-License-Identifier: Apache-2.0
"""What several rewrites share: reading loops and threads, writing statements in the user's style, launches."""
