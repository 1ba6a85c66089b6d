// SPDX-License-Identifier: Apache-2.0
// The parts of this extension's package.json that are read at run time.
import type * as vscode from 'vscode';

export interface Manifest {
  readonly version: string;
  readonly contributes: { readonly configuration: { readonly properties: Record<string, unknown> } };
}

export function manifest(extension: vscode.Extension<unknown>): Manifest {
  return extension.packageJSON as Manifest;
}
