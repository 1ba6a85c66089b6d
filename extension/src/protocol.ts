// SPDX-License-Identifier: Apache-2.0
// The messages of docs/protocol.md, as `server/warplens/lsp/protocol.py` defines them.

export const STATUS = 'warplens/status';
export const PROPOSAL = 'warplens/proposal';
export const NOTICE = 'warplens/notice';
export const MODEL = 'warplens/model';
export const DID_CHANGE_TRUST = 'warplens/didChangeTrust';
export const DID_CHANGE_VISIBLE = 'warplens/didChangeVisible';

export const OPTIMIZE = 'warplens.optimize';
export const FIX_AND_PROVE = 'warplens.fixAndProve';
export const FIX_APPLIED = 'warplens.fixApplied';
export const APPLY_PROPOSAL = 'warplens.applyProposal';
export const SHOW_EVIDENCE = 'warplens.showEvidence';
export const DOCTOR = 'warplens.doctor';
export const SHOW_CUTE = 'warplens.showCute';
export const CHECK_FILE = 'warplens.checkFile';
export const IGNORE = 'warplens.ignore';
export const SETUP = 'warplens.setup';
/** Commands of this client, which ask the user and then send the server's. */
export const IGNORE_WITH_REASON = 'warplens.ignoreWithReason';
export const SETUP_TOOLCHAIN = 'warplens.setupToolchain';
export const FETCH_CUTLASS = 'warplens.fetchCutlass';

/** What this client shows itself, so that the server leaves it to us. */
export const ACCEPTS = [
  STATUS,
  PROPOSAL,
  NOTICE,
  MODEL,
  SHOW_EVIDENCE,
  SHOW_CUTE,
  DOCTOR,
  IGNORE,
  SETUP_TOOLCHAIN,
];

export interface InitializationOptions {
  readonly trusted: boolean;
  readonly accepts: readonly string[];
}

export interface StatusParams {
  readonly state: 'ready' | 'checking' | 'optimizing' | 'limited' | 'error';
  /** Two words for what limits it; "" for the other states. */
  readonly label: string;
  readonly message: string;
  readonly remedy: string;
  readonly uri: string;
}

export interface Notice {
  readonly message: string;
  /** Commands of this client that lead on. */
  readonly actions: readonly { readonly title: string; readonly command: string }[];
}

interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Edit {
  readonly range: { readonly start: Position; readonly end: Position };
  readonly newText: string;
}

export interface Proposal {
  readonly id: string;
  readonly uri: string;
  readonly kernel: string;
  readonly title: string;
  /** `faster` is proven; the others say in `proof` why not. */
  readonly state: string;
  readonly edits: readonly Edit[];
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

export interface CuteResult {
  readonly uri: string;
  /** From 1, inclusive. */
  readonly line: number;
  readonly endLine: number;
  readonly symbol: string;
  readonly kind: string;
  readonly why: string;
}

export interface CutePage extends Evidence {
  readonly results: readonly CuteResult[];
}

export interface IgnoreArguments {
  readonly uri: string;
  readonly code: string;
  readonly line: number;
  readonly reason: string;
}

export interface SetupResult {
  /** What would be downloaded; "" where there is nothing to bring. */
  readonly question: string;
  readonly done: boolean;
}

export interface ModelQuestion {
  /** Id or family; "" for the editor's first. */
  readonly model: string;
  readonly messages: readonly { readonly role: 'system' | 'user' | 'assistant'; readonly text: string }[];
  readonly temperature: number;
  readonly replyTokens: number;
}

export interface ModelAnswer {
  readonly text: string;
  /** "" where there is a text; else VS Code's own code. */
  readonly error: string;
  readonly message: string;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
}
