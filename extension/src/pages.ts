// Markdown pages the server returns (the doctor's answer, a finding's evidence, a proof), in VS Code's own preview.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import type { Evidence } from './protocol.ts';

const SCHEME = 'warplens-page';
const texts = new Map<string, string>();
const changed = new vscode.EventEmitter<vscode.Uri>();

export function activate(context: WarplensContext): void {
  context.extension.subscriptions.push(
    changed,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      onDidChange: changed.event,
      provideTextDocumentContent: (uri) => texts.get(uri.path) ?? '',
    }),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (document.uri.scheme === SCHEME) texts.delete(document.uri.path);
    }),
  );
}

export async function showPage(page: Evidence, beside = false): Promise<void> {
  const path = `/${page.title.replaceAll('/', '∕')}.md`;
  texts.set(path, page.markdown);
  const uri = vscode.Uri.from({ scheme: SCHEME, path });
  changed.fire(uri);
  await vscode.commands.executeCommand(beside ? 'markdown.showPreviewToSide' : 'markdown.showPreview', uri);
}
