// SPDX-License-Identifier: Apache-2.0
// Markdown pages the server returns (the doctor's answer, a finding's evidence, a proof), in VS Code's own preview.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import type { Evidence } from './protocol.ts';

const SCHEME = 'warplens-page';
const texts = new Map<string, string>();
let shown = 0;

export function activate(context: WarplensContext): void {
  context.extension.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => texts.get(uri.query) ?? '',
    }),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (document.uri.scheme === SCHEME) texts.delete(document.uri.query);
    }),
  );
}

export async function showPage(page: Evidence, beside = false): Promise<void> {
  // A page never changes; showing it anew is another document, so that none is taken from an earlier one.
  const query = String(++shown);
  texts.set(query, page.markdown);
  const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${fileName(page.title)}`, query });
  await vscode.commands.executeCommand(beside ? 'markdown.showPreviewToSide' : 'markdown.showPreview', uri);
}

/** What VS Code writes on the tab of a page. */
export function pageLabel(title: string): string {
  return `Preview ${fileName(title)}`;
}

function fileName(title: string): string {
  return `${title.replaceAll('/', '∕')}.md`;
}
