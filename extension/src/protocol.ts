// SPDX-License-Identifier: Apache-2.0
// The messages of docs/protocol.md, as `server/warplens/lsp/protocol.py` defines them.

export const STATUS = 'warplens/status';
export const PROPOSAL = 'warplens/proposal';
export const DID_CHANGE_TRUST = 'warplens/didChangeTrust';

export const OPTIMIZE = 'warplens.optimize';
export const FIX_AND_PROVE = 'warplens.fixAndProve';
export const FIX_APPLIED = 'warplens.fixApplied';
export const APPLY_PROPOSAL = 'warplens.applyProposal';
export const SHOW_EVIDENCE = 'warplens.showEvidence';
export const DOCTOR = 'warplens.doctor';
export const SHOW_CUTE = 'warplens.showCute';

/** What this client shows itself, so that the server leaves it to us. */
export const ACCEPTS = [STATUS, PROPOSAL, SHOW_EVIDENCE, SHOW_CUTE, DOCTOR];

export interface InitializationOptions {
  readonly trusted: boolean;
  readonly accepts: readonly string[];
}

export interface StatusParams {
  readonly state: 'ready' | 'checking' | 'optimizing' | 'limited' | 'error';
  readonly message: string;
  readonly remedy: string;
  readonly uri: string;
}

export interface Proposal {
  readonly id: string;
  readonly uri: string;
  readonly kernel: string;
  readonly title: string;
  /** `faster` is proven; the others say in `proof` why not. */
  readonly state: string;
  readonly newText: string;
  /** Markdown. */
  readonly proof: string;
}

export interface ApplyResult {
  readonly applied: boolean;
  readonly reason: string;
}

export interface Evidence {
  readonly title: string;
  readonly markdown: string;
}
