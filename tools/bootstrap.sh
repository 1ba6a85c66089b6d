#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the development environment: bootstrap.sh FOLDER. Needs Python 3.11 or newer and a network.
set -euo pipefail
# of pip only what failed is news here
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_WARN_SCRIPT_LOCATION=1
folder=$1
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "warplens needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
  exit 1
}
# Debian splits venv from python3; virtualenv from PyPI stands in, and only then apt.
if ! "$python" -m venv --clear "$folder" 2>/dev/null; then
  if "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m pip install -qq --target "$folder.virtualenv" virtualenv
    PYTHONPATH="$folder.virtualenv" "$python" -m virtualenv -q --clear "$folder"
    rm -rf "$folder.virtualenv"
  elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv
    "$python" -m venv --clear "$folder"
  else
    echo "this Python has neither venv nor pip; run: sudo apt-get install python3-venv" >&2
    exit 1
  fi
fi
# most of the modules are never imported: Python compiles those that are
"$folder/bin/python" -m pip install -qq --no-compile --require-hashes -r requirements.lock
"$folder/bin/python" -m pip install -qq --no-deps --no-build-isolation -e .
