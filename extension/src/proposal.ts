// SPDX-License-Identifier: Apache-2.0
// An edit the server offers: a diff against the open file with its proof beside it. What can be done with it stands in
// the titles of both, as long as there is something to do, after a reload of the window too.
import { createHash } from 'node:crypto';
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { executeCommand } from './jobs.ts';
import { showPage } from './pages.ts';
import { APPLY_PROPOSAL, type ApplyResult, PROPOSAL, type Proposal } from './protocol.ts';

const SCHEME = 'warplens-proposal';
const KEPT = 'warplens.proposals';
/** Of the height; the rest is the proof's. */
const DIFF_SHARE = 0.65;

/** A proposal, and what its file held when it was made, to apply it without the server that made it. */
interface Offered {
  readonly proposal: Proposal;
  readonly basis: string;
}

const offered = new Map<string, Offered>();
const proofs = new Map<string, vscode.WebviewPanel>();

export function activate(context: WarplensContext): void {
  const register = (name: string, run: (id: string) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`warplens.${name}`, (uri?: unknown) =>
      run(uri instanceof vscode.Uri ? idOf(uri) : idOf(activeDiff()) || (last() ?? '')),
    );
  context.extension.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, {
      provideTextDocumentContent: (uri) => offered.get(idOf(uri))?.proposal.newText ?? '',
    }),
    register('acceptProposal', (id) => accept(context, id)),
    register('dismissProposal', (id) => close(context, id)),
    register('showProof', (id) => showProof(offered.get(id)?.proposal)),
    vscode.window.tabGroups.onDidChangeTabs(({ closed }) => {
      for (const id of closed.map(diffId)) if (id !== undefined) void forget(context, id);
    }),
    context.server.onStarting((client) => {
      client.onNotification(PROPOSAL, (proposal: Proposal) => show(context, proposal));
    }),
  );
  void restore(context);
}

/** VS Code does not bring back a tab whose text is made here: what was open before a reload is opened again. */
async function restore(context: WarplensContext): Promise<void> {
  for (const kept of context.extension.workspaceState.get<Offered[]>(KEPT, [])) {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(kept.proposal.uri));
    if (hash(document) !== kept.basis) continue;
    offered.set(kept.proposal.id, kept);
    await open(kept.proposal, document);
  }
  await keep(context);
}

async function show(context: WarplensContext, proposal: Proposal): Promise<void> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(proposal.uri));
  // One proposal for a kernel at a time: an older one is of an older text.
  for (const [id, other] of offered) {
    if (other.proposal.uri === proposal.uri && other.proposal.kernel === proposal.kernel) {
      await close(context, id);
    }
  }
  offered.set(proposal.id, { proposal, basis: hash(document) });
  await keep(context);
  await open(proposal, document);
}

async function open(proposal: Proposal, document: vscode.TextDocument): Promise<void> {
  const viewColumn = vscode.ViewColumn.One;
  // The file stays open behind it: with it the extension starts again after a reload.
  await vscode.window.showTextDocument(document, { viewColumn, preview: false });
  await vscode.commands.executeCommand('vscode.diff', document.uri, uriOf(proposal), proposal.title, {
    viewColumn,
    preview: false,
    selection: firstLine(proposal),
  });
  await showProof(proposal);
}

function firstLine(proposal: Proposal): vscode.Range | undefined {
  const line = proposal.edits[0]?.range.start.line;
  return line === undefined ? undefined : new vscode.Range(line, 0, line, 0);
}

async function showProof(proposal: Proposal | undefined): Promise<void> {
  if (proposal === undefined) return;
  const shown = proofs.get(proposal.id);
  if (shown) {
    shown.reveal(undefined, true);
    return;
  }
  const page = { title: `Proof: ${proposal.kernel}`, markdown: proposal.proof };
  const panel = await showPage(page, await belowTheDiff());
  proofs.set(proposal.id, panel);
  panel.onDidDispose(() => proofs.delete(proposal.id));
}

/** A group under the diff, which needs the whole width; where groups are laid out already, beside it. */
async function belowTheDiff(): Promise<vscode.ViewColumn> {
  const groups = vscode.window.tabGroups.all;
  // A group of the proof that was there before a reload is empty, and comes back all the same.
  const empty = groups.find(({ tabs }) => tabs.length === 0);
  if (empty !== undefined) return empty.viewColumn;
  if (groups.length > 1) return vscode.ViewColumn.Beside;
  await vscode.commands.executeCommand('vscode.setEditorLayout', {
    orientation: 1,
    groups: [{ size: DIFF_SHARE }, { size: 1 - DIFF_SHARE }],
  });
  return vscode.ViewColumn.Two;
}

async function accept(context: WarplensContext, id: string): Promise<void> {
  const found = offered.get(id);
  if (found === undefined) return;
  const result = (await executeCommand(context.server.running, APPLY_PROPOSAL, [{ id }])) as
    ApplyResult | undefined;
  const reason = result?.reason ?? 'the server is not running';
  if (result?.applied || (await applyHere(found))) await close(context, id);
  else void vscode.window.showWarningMessage(`The edit was not applied: ${reason}`);
}

/** A server that was started since knows nothing of the proposal: it is applied to the text that it is of. */
async function applyHere({ proposal, basis }: Offered): Promise<boolean> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(proposal.uri));
  if (hash(document) !== basis) return false;
  const change = new vscode.WorkspaceEdit();
  for (const { range, newText } of proposal.edits) {
    const { start, end } = range;
    const place = new vscode.Range(start.line, start.character, end.line, end.character);
    change.replace(document.uri, place, newText);
  }
  return vscode.workspace.applyEdit(change);
}

/** Closes the diff and its proof; the source is opened in their place. */
async function close(context: WarplensContext, id: string): Promise<void> {
  const found = offered.get(id);
  const tabs = tabsOf(id);
  if (tabs.length > 0) await vscode.window.tabGroups.close(tabs);
  await forget(context, id);
  if (found) {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(found.proposal.uri));
    await vscode.window.showTextDocument(document, vscode.ViewColumn.One);
  }
}

async function forget(context: WarplensContext, id: string): Promise<void> {
  offered.delete(id);
  const proof = proofs.get(id);
  const column = proof?.viewColumn;
  proof?.dispose();
  const left = vscode.window.tabGroups.all.find(({ viewColumn }) => viewColumn === column);
  if (left?.tabs.length === 0) await vscode.window.tabGroups.close(left);
  await keep(context);
}

async function keep(context: WarplensContext): Promise<void> {
  await context.extension.workspaceState.update(KEPT, [...offered.values()]);
  await vscode.commands.executeCommand('setContext', 'warplens.proposal', offered.size > 0);
}

function hash(document: vscode.TextDocument): string {
  return createHash('sha256').update(document.getText()).digest('hex');
}

function last(): string | undefined {
  return [...offered.keys()].at(-1);
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

function tabsOf(id: string): vscode.Tab[] {
  return vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter((tab) => diffId(tab) === id);
}

function diffId(tab: vscode.Tab): string | undefined {
  const id = tab.input instanceof vscode.TabInputTextDiff ? idOf(tab.input.modified) : '';
  return id === '' ? undefined : id;
}
