// SPDX-License-Identifier: Apache-2.0
// An edit the server offers: a diff against the open file, its proof beside it, and a button that applies it.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { executeCommand } from './jobs.ts';
import { pageLabel, showPage } from './pages.ts';
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
  await vscode.window.showTextDocument(file, { viewColumn: vscode.ViewColumn.One });
  // The proof first: the buttons of the diff show while its group is the active one.
  await showProof(proposal);
  await vscode.commands.executeCommand('vscode.diff', file, uriOf(proposal), proposal.title, {
    viewColumn: vscode.ViewColumn.One,
    preview: false,
  });
  await ask(context, proposal);
}

async function ask(context: WarplensContext, proposal: Proposal): Promise<void> {
  const [apply, show] = question(proposal.state);
  const answer = await show(proposal.title, apply, 'Dismiss');
  if (answer === apply) await accept(context, proposal.id);
  else if (answer !== undefined) await close(proposal.id);
}

type Show = (message: string, ...buttons: string[]) => Thenable<string | undefined>;

/** What to call the button that applies it, and how loudly to ask. */
function question(state: string): [string, Show] {
  if (state === 'faster') return ['Apply', vscode.window.showInformationMessage];
  if (state === 'unproven') return ['Apply Unproven', vscode.window.showInformationMessage];
  return ['Apply Anyway', vscode.window.showWarningMessage];
}

async function showProof(proposal: Proposal | undefined): Promise<void> {
  if (proposal) await showPage({ title: proofTitle(proposal), markdown: proposal.proof }, true);
}

function proofTitle(proposal: Proposal): string {
  return `Proof: ${proposal.kernel}`;
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

/** Closes the diff and its proof; the source is opened in their place. */
async function close(id: string): Promise<void> {
  const proposal = offered.get(id);
  const proof = proposal && pageLabel(proofTitle(proposal));
  const tabs = vscode.window.tabGroups.all
    .flatMap((group) => group.tabs)
    .filter(
      (tab) => diffId(tab) === id || (tab.input instanceof vscode.TabInputWebview && tab.label === proof),
    );
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
