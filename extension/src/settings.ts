// SPDX-License-Identifier: Apache-2.0
// What the user set, without VS Code's defaults: a default sent to the server would override `warplens.toml`.
import * as vscode from 'vscode';
import { manifest } from './manifest.ts';

type Section = Record<string, unknown>;

export function explicitSettings(extension: vscode.Extension<unknown>, resource?: vscode.Uri): Section {
  const known = Object.keys(manifest(extension).contributes.configuration.properties);
  const configuration = vscode.workspace.getConfiguration(undefined, resource ?? null);
  const result: Section = {};
  for (const key of known) {
    const found = configuration.inspect(key);
    const value = found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
    // The effective value, since an untrusted workspace's own is not applied.
    if (value !== undefined) put(result, key.split('.').slice(1), configuration.get(key));
  }
  return result;
}

function put(section: Section, path: readonly string[], value: unknown): void {
  const [head, ...rest] = path;
  if (head === undefined) return;
  if (rest.length === 0) {
    section[head] = value;
    return;
  }
  section[head] ??= {};
  put(section[head] as Section, rest, value);
}
