# SPDX-License-Identifier: Apache-2.0
"""The language server. Alone imports pygls and lsprotocol; converts plain data at the edge."""
