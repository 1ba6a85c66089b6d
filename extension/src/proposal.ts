// An edit the server offers: a diff against the open file, its proof beside it, and a button that applies it.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { executeCommand } from './jobs.ts';
import { showPage } from './pages.ts';
import { APPLY_PROPOSAL, type ApplyResult, PROPOSAL, type Proposal } from './protocol.ts';

const SCHEME = 'warplens-proposal';
const offered = new Map<string, Proposal>();

export function activate(context: WarplensContext): void {
  const register = (name: string, run: (id: string) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`warplens.${name}`, (uri?: vscode.Uri) => run(idOf(uri ?? activeDiff())));
  context.extension.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => offered.get(idOf(uri))?.newText ?? '',
    }),
    register('acceptProposal', (id) => accept(context, id)),
    register('dismissProposal', close),
    register('showProof', (id) => showProof(offered.get(id))),
    context.server.onStarting((client) => {
      offered.clear();
      client.onNotification(PROPOSAL, (proposal: Proposal) => show(context, proposal));
    }),
  );
}

async function show(context: WarplensContext, proposal: Proposal): Promise<void> {
  offered.set(proposal.id, proposal);
  const file = vscode.Uri.parse(proposal.uri);
  const column = vscode.ViewColumn.One;
  await vscode.commands.executeCommand('vscode.diff', file, uriOf(proposal), proposal.title, {
    viewColumn: column,
    preview: false,
  });
  await showProof(proposal);
  const apply = 'Apply';
  const answer = await vscode.window.showInformationMessage(proposal.title, apply, 'Dismiss');
  if (answer === apply) await accept(context, proposal.id);
  else if (answer !== undefined) await close(proposal.id);
}

async function showProof(proposal: Proposal | undefined): Promise<void> {
  if (proposal) await showPage({ title: `Proof: ${proposal.kernel}`, markdown: proposal.proof }, true);
}

async function accept(context: WarplensContext, id: string): Promise<void> {
  if (!offered.has(id)) return;
  const result = await executeCommand(context.server.running, APPLY_PROPOSAL, [{ id }]);
  const { applied, reason } = (result ?? {
    applied: false,
    reason: 'the server is not running',
  }) as ApplyResult;
  if (applied) await close(id);
  else void vscode.window.showWarningMessage(`The edit was not applied: ${reason}`);
}

/** Closes the diff; the source is opened in its place. */
async function close(id: string): Promise<void> {
  const proposal = offered.get(id);
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => diffId(tab) === id);
  if (tabs.length > 0) await vscode.window.tabGroups.close(tabs);
  offered.delete(id);
  if (proposal) {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(proposal.uri));
    await vscode.window.showTextDocument(document, vscode.ViewColumn.One);
  }
}

function uriOf(proposal: Proposal): vscode.Uri {
  const name = vscode.Uri.parse(proposal.uri).path.split('/').at(-1) ?? 'proposal.cu';
  return vscode.Uri.from({ scheme: SCHEME, path: `/${encodeURIComponent(proposal.id)}/${name}` });
}

function idOf(uri: vscode.Uri | undefined): string {
  return uri?.scheme === SCHEME ? decodeURIComponent(uri.path.split('/')[1] ?? '') : '';
}

function activeDiff(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff ? input.modified : undefined;
}

function diffId(tab: vscode.Tab): string | undefined {
  return tab.input instanceof vscode.TabInputTextDiff ? idOf(tab.input.modified) : undefined;
}
