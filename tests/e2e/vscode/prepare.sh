#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts VS Code (code-server), Node and playwright into .tools/vscode and finds or installs a browser.
# Does nothing where that was done before. Prints nothing but what it does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
tools=$root/.tools/vscode
say() { echo "vscode: $*" >&2; }

browser() {
  local name
  for name in "${CHROME_PATH:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    [ -n "$name" ] && command -v "$name" && return
  done
  return 1
}

install_browser() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "no Chromium was found; install one (Debian: sudo apt-get install chromium) or set CHROME_PATH"
    exit 1
  fi
  say "installing Chromium"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >"$tools/apt.log" 2>&1 || {
    tail -20 "$tools/apt.log" >&2
    exit 1
  }
}

# npm's own scripts run on the Node they are started with, so that the pinned one comes first.
quiet_npm() {
  npm --no-audit --no-fund --loglevel=error "$@" >>"$tools/npm.log" 2>&1 || {
    tail -30 "$tools/npm.log" >&2
    exit 1
  }
}

install_vscode() {
  say "installing VS Code (code-server)"
  rm -rf "$tools/node_modules" "$tools/npm.log"
  cp "$here/package.json" "$here/package-lock.json" "$tools/"
  cd "$tools"
  quiet_npm ci --ignore-scripts
  local node
  node=$(echo "$tools"/node_modules/node-linux-*)
  ln -sfn "$node" "$tools/node"
  export PATH="$node/bin:$PATH" npm_config_nodedir="$node"
  # Their lock files lag behind their manifests, which `npm ci` refuses.
  cd node_modules/code-server/lib/vscode
  quiet_npm install --omit=dev --ignore-scripts
  (cd extensions && quiet_npm install --omit=dev --ignore-scripts)
  # C++ that runs for some minutes: to optimise it would take longer than it saves.
  CXXFLAGS=-O0 quiet_npm rebuild --foreground-scripts @vscode/spdlog @vscode/native-watchdog
}

command -v npm >/dev/null || { say "npm was not found; install Node.js"; exit 1; }
mkdir -p "$tools"
found=$(browser) || { install_browser; found=$(browser); }
echo "$found" >"$tools/browser"
mark=$(cat "$here/package-lock.json" "$here/prepare.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$tools/ready" 2>/dev/null)" != "$mark" ]; then
  (install_vscode)
  echo "$mark" >"$tools/ready"
fi
