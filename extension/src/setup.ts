// SPDX-License-Identifier: Apache-2.0
// *Set up toolchain* and *Fetch CUTLASS*: what would be downloaded is said, and done where the user agrees.
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { executeCommand } from './jobs.ts';
import { SETUP, type SetupResult } from './protocol.ts';

export async function setup(client: LanguageClient, what: 'toolchain' | 'cutlass'): Promise<void> {
  const asked = (await executeCommand(client, SETUP, [{ what, consent: false }])) as SetupResult | null;
  if (asked === null) return;
  if (asked.question === '') {
    await brought(what);
    void vscode.window.showInformationMessage('Everything is here already; the doctor shows where.');
    return;
  }
  const download = 'Download';
  const answer = await vscode.window.showInformationMessage(asked.question, { modal: true }, download);
  if (answer !== download) return;
  const done = (await executeCommand(client, SETUP, [{ what, consent: true }])) as SetupResult | null;
  if (done?.done) {
    await brought(what);
    const name = what === 'toolchain' ? 'The toolchain' : 'CUTLASS';
    void vscode.window.showInformationMessage(`${name} is set up.`);
  }
}

/** Ticks the walkthrough's step: it was done, not merely looked at. */
async function brought(what: 'toolchain' | 'cutlass'): Promise<void> {
  if (what === 'toolchain') await vscode.commands.executeCommand('setContext', 'warplens.toolchain', true);
}
