// SPDX-License-Identifier: Apache-2.0
// The palette's commands and the menu behind the status item.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { debugInformation } from './debug-information.ts';
import { executeCommand } from './jobs.ts';
import {
  CHECK_FILE,
  DOCTOR,
  FIX_AND_PROVE,
  IGNORE,
  IGNORE_WITH_REASON,
  type IgnoreArguments,
  OPTIMIZE,
  SETUP_TOOLCHAIN,
  SHOW_CUTE,
} from './protocol.ts';
import { setup } from './setup.ts';

export function activate(context: WarplensContext): void {
  const { environment, logs, server } = context;
  const register = (name: string, run: () => unknown): void => {
    context.extension.subscriptions.push(vscode.commands.registerCommand(`warplens.${name}`, run));
  };
  register('restart', () => server.restart('asked for by the user'));
  register('showOutput', () => logs.server.show());
  register('showClientOutput', () => logs.client.show());
  register('debugInformation', () => debugInformation(context));
  register('createEnvironment', () => environment.offer(true));
  register('removeEnvironment', () => environment.remove());
  register('selectInterpreter', () => environment.selectInterpreter());
  register('runDoctor', () => whenRunning(context, (client) => executeCommand(client, DOCTOR, [])));
  register('optimizeAtCursor', () => atCursor(context, OPTIMIZE, 'There is no kernel at the cursor.'));
  register('fixAndProveAtCursor', () =>
    atCursor(context, FIX_AND_PROVE, 'There is no fix to prove at the cursor.'),
  );
  register('checkThisFile', () => checkThisFile(context));
  register('fetchCutlass', () => whenRunning(context, (client) => setup(client, 'cutlass')));
  context.extension.subscriptions.push(
    vscode.commands.registerCommand(SETUP_TOOLCHAIN, () =>
      whenRunning(context, (client) => setup(client, 'toolchain')),
    ),
    vscode.commands.registerCommand(IGNORE_WITH_REASON, (asked: IgnoreArguments) => ignore(context, asked)),
  );
  register('findCute', () => findCute(context));
  register('statusActions', () => statusActions(context));
}

/** Asks for words and shows what CUTLASS has for them. */
async function findCute(context: WarplensContext): Promise<unknown> {
  const query = await vscode.window.showInputBox({
    title: 'Find CuTe Abstraction or Example',
    prompt: 'Words, or a symbol: exact, in part or misspelt',
    placeHolder: 'persistent ping-pong GEMM with fp8 on Hopper',
  });
  if (!query?.trim()) return undefined;
  return whenRunning(context, (client) => executeCommand(client, SHOW_CUTE, [{ query }]));
}

/** The file is saved first: what is checked is the file on disk. */
async function checkThisFile(context: WarplensContext): Promise<unknown> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) return undefined;
  if (document.isDirty) return document.save();
  const uri = document.uri.toString();
  return whenRunning(context, (client) => executeCommand(client, CHECK_FILE, [{ uri }]));
}

async function ignore(context: WarplensContext, asked: IgnoreArguments): Promise<unknown> {
  const reason = await vscode.window.showInputBox({
    title: `Ignore ${asked.code} here`,
    prompt: 'Why it does not matter; it is written into the comment',
    validateInput: (text) => (text.trim() === '' ? 'A reason is needed' : undefined),
  });
  if (reason === undefined) return undefined;
  return whenRunning(context, (client) => executeCommand(client, IGNORE, [{ ...asked, reason }]));
}

async function whenRunning(
  context: WarplensContext,
  run: (client: NonNullable<WarplensContext['server']['running']>) => Promise<unknown>,
): Promise<unknown> {
  const client = context.server.running;
  if (client !== undefined) return run(client);
  return statusActions(context);
}

/** Runs the server's own code action at the cursor, so that the server alone decides where one applies. */
async function atCursor(context: WarplensContext, command: string, nothing: string): Promise<unknown> {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) return undefined;
  return whenRunning(context, async (client) => {
    const actions = await vscode.commands.executeCommand<(vscode.CodeAction | vscode.Command)[]>(
      'vscode.executeCodeActionProvider',
      editor.document.uri,
      editor.selection,
    );
    const found = actions
      .map((action) => ({ title: action.title, run: isCommand(action) ? action : action.command }))
      .filter(({ run }) => run?.command === command);
    const chosen = found.length > 1 ? await vscode.window.showQuickPick(toPicks(found)) : found[0];
    if (chosen?.run) return executeCommand(client, command, chosen.run.arguments ?? []);
    if (found.length === 0) void vscode.window.showInformationMessage(nothing);
    return undefined;
  });
}

function isCommand(action: vscode.CodeAction | vscode.Command): action is vscode.Command {
  return typeof action.command === 'string';
}

function toPicks<T extends { title: string }>(items: T[]): (T & vscode.QuickPickItem)[] {
  return items.map((item) => ({ ...item, label: item.title }));
}

async function statusActions(context: WarplensContext): Promise<void> {
  const { status } = context;
  const running = context.server.running !== undefined;
  const entries: [boolean, string, string][] = [
    [!running, '$(add) Create Python Environment', 'warplens.createEnvironment'],
    [!running, '$(folder-opened) Select Python Interpreter', 'warplens.selectInterpreter'],
    [running, '$(checklist) Doctor: What Is Installed and What Is Missing', 'warplens.runDoctor'],
    [running, '$(check) Check This File Now', 'warplens.checkThisFile'],
    [running, '$(cloud-download) Set Up Toolchain', SETUP_TOOLCHAIN],
    [running, '$(cloud-download) Fetch CUTLASS', 'warplens.fetchCutlass'],
    [!vscode.workspace.isTrusted, '$(shield) Manage Workspace Trust', 'workbench.trust.manage'],
    [true, '$(output) Show Server Output', 'warplens.showOutput'],
    [true, '$(output) Show Client Output', 'warplens.showClientOutput'],
    [true, '$(debug-restart) Restart Server', 'warplens.restart'],
    [true, '$(info) Print Debug Information', 'warplens.debugInformation'],
  ];
  const picks = entries.filter(([fits]) => fits).map(([, label, command]) => ({ label, command }));
  const chosen = await vscode.window.showQuickPick(picks, {
    title: 'Warplens',
    placeHolder: status.sentence,
  });
  if (chosen) await vscode.commands.executeCommand(chosen.command);
}
