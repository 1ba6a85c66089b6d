// SPDX-License-Identifier: Apache-2.0
// The interpreter chosen in Microsoft's Python extension, where that is installed. Only what is used is declared.
import * as vscode from 'vscode';

interface PythonApi {
  /** Absent in versions before 2023. */
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(
      path: unknown,
    ): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

const ID = 'ms-python.python';

export async function interpreter(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(ID);
  if (extension === undefined) return undefined;
  try {
    const { environments } = await extension.activate();
    if (environments === undefined) return undefined;
    const resource = vscode.workspace.workspaceFolders?.[0]?.uri;
    const found = await environments.resolveEnvironment(environments.getActiveEnvironmentPath(resource));
    return found?.executable.uri?.fsPath;
  } catch {
    return undefined;
  }
}

/** Listens once that extension is active; does not start it. */
export function onDidChangeInterpreter(listener: () => void): vscode.Disposable {
  let inner: vscode.Disposable | undefined;
  const attach = (): void => {
    const extension = vscode.extensions.getExtension<PythonApi>(ID);
    if (inner === undefined && extension?.isActive) {
      inner = extension.exports.environments?.onDidChangeActiveEnvironmentPath(listener);
    }
  };
  attach();
  const outer = vscode.extensions.onDidChange(attach);
  return new vscode.Disposable(() => {
    outer.dispose();
    inner?.dispose();
  });
}
