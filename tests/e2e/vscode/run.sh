#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests in real VS Code; prepare.sh and `make vsix` come first. Arguments: test files, else all.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(cd ../../.. && pwd)/.tools/vscode
rm -rf ../../../artifacts/vscode
[ $# -gt 0 ] || set -- ../../../extension/test/*.test.ts ./*.test.ts
exec "$tools/node/bin/node" --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-concurrency=1 \
  --test-timeout=1800000 --test-reporter=./reporter.mjs "$@"
