// SPDX-License-Identifier: Apache-2.0
// Which Python runs the server: the order of candidates, and why each was taken or passed over.
// Knows nothing of the editor, so that it can be tested without one.

export type Origin = 'setting' | 'managed environment' | 'Python extension' | 'PATH';

export interface Candidate {
  readonly origin: Origin;
  readonly command: string;
}

export type Probe =
  | { readonly usable: true; readonly python: string; readonly warplens: string }
  | { readonly usable: false; readonly reason: string };

export interface Interpreter extends Candidate {
  readonly python: string;
  readonly warplens: string;
}

export interface Choice {
  readonly chosen: Interpreter | undefined;
  /** One sentence for each candidate, in order. */
  readonly reasons: readonly string[];
}

/**
 * The first usable candidate. A setting is the user's decision: if it does not work nothing else is tried,
 * since a server from another environment would hide the mistake.
 */
export async function choose(
  candidates: readonly Candidate[],
  probe: (command: string) => Promise<Probe>,
): Promise<Choice> {
  const reasons: string[] = [];
  for (const candidate of candidates) {
    const found = await probe(candidate.command);
    const subject = `${candidate.origin}: ${candidate.command}`;
    if (found.usable) {
      reasons.push(`${subject}: taken, Warplens ${found.warplens} on Python ${found.python}`);
      return { chosen: { ...candidate, python: found.python, warplens: found.warplens }, reasons };
    }
    reasons.push(`${subject}: passed over, ${found.reason}`);
    if (candidate.origin === 'setting') break;
  }
  return { chosen: undefined, reasons };
}

/** What a Python says about itself, from the output of `PROBE_SCRIPT`. */
export function readProbe(output: string): Probe {
  let said: { python: number[]; warplens: string | null };
  try {
    said = JSON.parse(output) as typeof said;
  } catch {
    return { usable: false, reason: `it answered ${JSON.stringify(output.slice(0, 80))}` };
  }
  const python = said.python.join('.');
  if (!isRecentEnough(said.python)) return { usable: false, reason: `Python ${python} is older than 3.11` };
  if (said.warplens === null) return { usable: false, reason: `Warplens is not installed in it` };
  return { usable: true, python, warplens: said.warplens };
}

export function isRecentEnough(version: readonly number[]): boolean {
  const [major = 0, minor = 0] = version;
  return major > 3 || (major === 3 && minor >= 11);
}

/** Reads the installed distribution and imports nothing, so that no folder called `warplens` can mislead it. */
export const PROBE_SCRIPT = `
import json, sys
from importlib import metadata
try:
    version = metadata.version("warplens")
except metadata.PackageNotFoundError:
    version = None
print(json.dumps({"python": list(sys.version_info[:3]), "warplens": version}))
`;
