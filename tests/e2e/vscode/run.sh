#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests in real VS Code; prepare.sh and `make vsix` come first. Arguments: test files, else all.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(cd ../../.. && pwd)/.tools/vscode
rm -rf ../../../artifacts/vscode
[ $# -gt 0 ] || set -- ../../../extension/test/*.test.ts ./*.test.ts
# VS Code was seen to stand still until the next event; that libuv waits through io_uring, where there is one, is suspected
export UV_USE_IO_URING=0
exec "$tools/node/bin/node" --disable-warning=MODULE_TYPELESS_PACKAGE_JSON --test --test-concurrency=1 \
  --test-timeout=1800000 --test-reporter=./reporter.mjs "$@"
