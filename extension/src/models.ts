// SPDX-License-Identifier: Apache-2.0
// Answers the server's questions with the language models that VS Code offers (`model.provider` set to `editor`). The
// server has the user's consent before it asks; VS Code asks for its own.
import * as vscode from 'vscode';
import type { WarplensContext } from './context.ts';
import { errorText } from './error-text.ts';
import { MODEL, type ModelAnswer, type ModelQuestion } from './protocol.ts';

/** Characters of code in a token, at most: what is longer is cut by the server anyway. */
const CHARACTERS_PER_TOKEN = 6;

export function activate(context: WarplensContext): void {
  context.extension.subscriptions.push(
    context.server.onStarting((client) => {
      client.onRequest(MODEL, (question: ModelQuestion, token: vscode.CancellationToken) =>
        answer(question, token),
      );
    }),
  );
}

async function answer(question: ModelQuestion, token: vscode.CancellationToken): Promise<ModelAnswer> {
  try {
    const model = await choose(question.model);
    if (model === undefined) {
      const wanted = question.model === '' ? 'no language model' : `no language model ${question.model}`;
      return failure('NotFound', `VS Code offers ${wanted}`);
    }
    const messages = question.messages.map(({ role, text }) =>
      // VS Code knows no system role
      role === 'assistant'
        ? vscode.LanguageModelChatMessage.Assistant(text)
        : vscode.LanguageModelChatMessage.User(text),
    );
    const response = await model.sendRequest(
      messages,
      {
        justification: 'Warplens asks for a faster version of the kernel that you are optimizing.',
        modelOptions: { temperature: question.temperature, max_tokens: question.replyTokens },
      },
      token,
    );
    let text = '';
    for await (const part of response.text) {
      text += part;
      if (text.length > question.replyTokens * CHARACTERS_PER_TOKEN) break;
    }
    return { text, error: '', message: '', ...(await counted(model, question, text)) };
  } catch (error) {
    const code = error instanceof vscode.LanguageModelError ? error.code : 'Failed';
    return failure(code, errorText(error));
  }
}

/** The model of that id, or else of that family; any where none is named. */
async function choose(name: string): Promise<vscode.LanguageModelChat | undefined> {
  if (name === '') return (await vscode.lm.selectChatModels())[0];
  const [byId] = await vscode.lm.selectChatModels({ id: name });
  return byId ?? (await vscode.lm.selectChatModels({ family: name }))[0];
}

async function counted(
  model: vscode.LanguageModelChat,
  question: ModelQuestion,
  text: string,
): Promise<Pick<ModelAnswer, 'inputTokens' | 'outputTokens'>> {
  try {
    const asked = await Promise.all(question.messages.map((message) => model.countTokens(message.text)));
    return {
      inputTokens: asked.reduce((sum, count) => sum + count, 0),
      outputTokens: await model.countTokens(text),
    };
  } catch {
    return { inputTokens: null, outputTokens: null };
  }
}

function failure(error: string, message: string): ModelAnswer {
  return { text: '', error, message, inputTokens: null, outputTokens: null };
}
