// SPDX-License-Identifier: Apache-2.0
// What every feature gets.
import type * as vscode from 'vscode';
import type { Environment } from './environment.ts';
import type { Logs } from './log.ts';
import type { Server } from './server.ts';
import type { Status } from './status.ts';

export interface WarplensContext {
  readonly extension: vscode.ExtensionContext;
  readonly logs: Logs;
  readonly status: Status;
  readonly environment: Environment;
  readonly server: Server;
}
