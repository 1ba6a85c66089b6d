# SPDX-License-Identifier: Apache-2.0
"""From text to a syntax tree: the lexer, the preprocessor, masking, tree-sitter, the definitions of a file."""
