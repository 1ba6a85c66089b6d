#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stands for the interpreter setting: the repository's Python, and a server with the scripted service.
# $WARPLENS_ROOT is the repository.
set -eu
python=$WARPLENS_ROOT/.venv/bin/python
if [ "$*" = "-P -m warplens lsp" ]; then
  exec "$python" -P "$WARPLENS_ROOT/tests/server/lsp/sample_service.py"
fi
exec "$python" "$@"
