// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end, with its output, a time limit and a cancel that takes its children along.
import { spawn } from 'node:child_process';

export interface RunOptions {
  readonly cwd: string;
  readonly milliseconds: number;
  readonly onLine?: (line: string) => void;
  readonly signal?: AbortSignal;
}

export class RunError extends Error {}

/** Standard output; throws RunError with the last lines of what it said if it fails. */
export function run(command: string, args: readonly string[], options: RunOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    options.signal?.throwIfAborted();
    const group = process.platform !== 'win32';
    const child = spawn(command, args, {
      cwd: options.cwd,
      detached: group,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const end = (): void => {
      if (child.pid === undefined) return;
      try {
        if (group) process.kill(-child.pid, 'SIGKILL');
        else child.kill();
      } catch {
        // It has ended by itself.
      }
    };
    const timer = setTimeout(end, options.milliseconds);
    options.signal?.addEventListener('abort', end, { once: true });
    let stdout = '';
    let all = '';
    const take = (data: Buffer, isOutput: boolean): void => {
      const text = data.toString('utf8');
      if (isOutput) stdout += text;
      all = (all + text).slice(-8000);
      for (const line of text.split(/\r?\n/)) if (line.trim()) options.onLine?.(line);
    };
    child.stdout.on('data', (data: Buffer) => take(data, true));
    child.stderr.on('data', (data: Buffer) => take(data, false));
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(new RunError(`${command} does not start: ${error.message}`));
    });
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', end);
      if (status === 0) resolve(stdout);
      else if (options.signal?.aborted) reject(new RunError('cancelled'));
      else reject(new RunError(`${command} ended with ${signal ?? status}: ${lastLines(all)}`));
    });
  });
}

function lastLines(text: string): string {
  return text.trim().split(/\r?\n/).slice(-3).join(' ').slice(-400);
}
