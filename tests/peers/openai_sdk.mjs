// OpenAI's SDK for Node, told what to do: each line of the input is a command, each line of the output what came of it.

import readline from 'node:readline';
import OpenAI, { APIError } from 'openai';

async function streamed(client, command, options) {
  const { data: stream, response } = await client.chat.completions.create(command.params, options).withResponse();
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (chunks.length === command.close_after) break;
  }
  return { chunks, session: response.headers.get('x-session-id'), message: response.headers.get('x-message-id') };
}

// The SDK's own way to put an answer together from its chunks.
async function helped(client, command, options) {
  const stream = client.chat.completions.stream(command.params, options);
  return { completion: await stream.finalChatCompletion() };
}

// The SDK's own way to run tools until the model wants none any more.
async function looped(client, command, options) {
  let [rounds, session] = [0, null];
  const tools = command.params.tools.map((tool) => ({
    type: 'function',
    function: { ...tool.function, parse: JSON.parse, function: (given) => `${tool.function.name} of ${given.city}` },
  }));
  const runner = client.chat.completions.runTools({ ...command.params, tools }, options);
  runner.on('chatCompletion', (completion) => {
    rounds += 1;
    session = completion.session_id;
  });
  return { content: await runner.finalContent(), rounds, session };
}

async function run(command) {
  const client = new OpenAI({
    baseURL: command.url,
    apiKey: command.key,
    maxRetries: command.retries ?? 0,
    timeout: (command.timeout ?? 60) * 1000,
  });
  const options = { headers: command.headers ?? {} };
  switch (command.do) {
    case 'models': {
      const models = [];
      for await (const model of client.models.list()) models.push(model.id);
      return { models };
    }
    case 'model':
      return { model: await client.models.retrieve(command.id) };
    case 'loop':
      return looped(client, command, options);
    case 'help':
      return helped(client, command, options);
    default:
      if (command.params.stream) return streamed(client, command, options);
      return { completion: await client.chat.completions.create(command.params, options) };
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  let told;
  try {
    told = await run(JSON.parse(line));
  } catch (error) {
    if (!(error instanceof APIError)) throw error;
    const { status = null, code, param, type, message } = error;
    told = { error: error.constructor.name, status, code, param, type, message };
  }
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
