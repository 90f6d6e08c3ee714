// Clients for Node that speak OpenAI's chat completions, each as its own documentation begins, with another base URL.
//
//     node openai_clients.mjs URL KEY [WORD...]
//
// URL ends in /v1; behind it an agent named `assistant` uses the model of `openai_upstream.py`. Every scenario prints a line;
// with words, only those whose name has one of them run. All run at once, since most of the time is silence.

import { deepStrictEqual, ok } from 'node:assert';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const [url, key, ...only] = process.argv.slice(2);
const model = 'assistant';
const all = ['', 'silence', 'hiccup', 'cut'];
const Report = z.object({ city: z.string(), degrees: z.number().int(), notes: z.array(z.string()) });
const report = { city: 'Oslo', degrees: 7, notes: ['some words', 'some words'] };
const both = 'The tools said: weather of Oslo; weather of Rome';
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const seen = `I see a PNG of ${Buffer.from(png, 'base64').length} bytes`;
const user = (content) => [{ role: 'user', content }];
const scenarios = [];

// A scenario as it is, and across silence and hiccups of the model: what is added to its name is said to the model.
function scenario(name, cases, run) {
  for (const each of cases) scenarios.push({ name: each ? `${name}+${each}` : name, run: () => run(each) });
}

// What came at last is right; before it may stand what was seen of an attempt that broke off.
function ends(found, wanted) {
  ok(found?.endsWith(wanted), `${JSON.stringify(found)} does not end in ${JSON.stringify(wanted)}`);
}

// What was used; an attempt that broke off was used too, and may be counted.
function counted(tokens, is, wanted) {
  ok(tokens === wanted || (is === 'cut' && tokens > wanted), `${tokens} tokens instead of ${wanted}`);
}

// OpenAI's own SDK.

const client = new OpenAI({ baseURL: url, apiKey: key });
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weatherTool = { type: 'function', function: { name: 'weather', description: 'Tells the weather', parameters } };

scenario('openai-node plain', all, async (is) => {
  const completion = await client.chat.completions.create({ model, messages: user(`node plain ${is}`) });
  deepStrictEqual(completion.choices[0].message.content, `You said: node plain ${is}`.trim());
});

scenario('openai-node stream', all, async (is) => {
  const stream = await client.chat.completions.create({ model, messages: user(`node stream ${is}`), stream: true });
  let text = '';
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content || '';
  ends(text, `You said: node stream ${is}`.trim());
});

scenario('openai-node stream_helper', ['', 'silence', 'hiccup'], async (is) => {
  const stream = client.chat.completions.stream({ model, messages: user(`node helper ${is}`) });
  let text = '';
  stream.on('content', (delta) => (text += delta));
  const completion = await stream.finalChatCompletion();
  deepStrictEqual([text, completion.choices[0].message.content], Array(2).fill(`You said: node helper ${is}`.trim()));
});

scenario('openai-node tools', all, async (is) => {
  const messages = user(`node weather again ${is}`);
  for (;;) {
    const { message } = (await client.chat.completions.create({ model, messages, tools: [weatherTool] })).choices[0];
    messages.push(message);
    if (!message.tool_calls) return deepStrictEqual(message.content, both);
    for (const call of message.tool_calls) {
      const content = `weather of ${JSON.parse(call.function.arguments).city}`;
      messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
});

for (const stream of [false, true]) {
  scenario(`openai-node run_tools${stream ? '_stream' : ''}`, all, async (is) => {
    const tools = [
      {
        type: 'function',
        function: { ...weatherTool.function, parse: JSON.parse, function: ({ city }) => `weather of ${city}` },
      },
    ];
    const messages = user(`node runs weather both ${stream} ${is}`);
    const runner = client.chat.completions.runTools({ model, messages, tools, stream });
    ends(await runner.finalContent(), both);
  });
}

scenario('openai-node parse', all, async (is) => {
  const format = zodResponseFormat(Report, 'report');
  const messages = user(`node parse ${is} expect {"response_format.json_schema.strict": true}`);
  const completion = await client.chat.completions.parse({ model, messages, response_format: format });
  deepStrictEqual(completion.choices[0].message.parsed, report);
});

scenario('openai-node parse_stream', ['', 'silence', 'hiccup'], async (is) => {
  const format = zodResponseFormat(Report, 'report');
  const stream = client.chat.completions.stream({ model, messages: user(`node parse stream ${is}`), response_format: format });
  deepStrictEqual((await stream.finalChatCompletion()).choices[0].message.parsed, report);
});

scenario('openai-node parse_tool', [''], async () => {
  const tools = [zodFunction({ name: 'report', parameters: Report })];
  const messages = user('node must');
  const completion = await client.chat.completions.parse({ model, messages, tools, tool_choice: 'required' });
  deepStrictEqual(completion.choices[0].message.tool_calls[0].function.parsed_arguments, report);
});

scenario('openai-node image', [''], async () => {
  const content = [
    { type: 'text', text: 'node image' },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
  ];
  const completion = await client.chat.completions.create({ model, messages: user(content) });
  deepStrictEqual(completion.choices[0].message.content, seen);
});

// The AI SDK.

const plain = createOpenAICompatible({ name: 'everturn', baseURL: url, apiKey: key })(model);
// As its documentation says for servers that take schemas.
const structured = createOpenAICompatible({
  name: 'everturn',
  baseURL: url,
  apiKey: key,
  supportsStructuredOutputs: true,
  includeUsage: true,
})(model);
const tools = {
  weather: tool({
    description: 'Tells the weather',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `weather of ${city}`,
  }),
};
const stopWhen = stepCountIs(5);

scenario('ai-sdk generate_text', all, async (is) => {
  const { text, usage } = await generateText({ model: plain, prompt: `ai text ${is}` });
  deepStrictEqual(text, `You said: ai text ${is}`.trim());
  counted(usage.totalTokens, is, 30);
});

scenario('ai-sdk stream_text', all, async (is) => {
  let [text, error] = ['', null];
  const result = streamText({ model: plain, prompt: `ai stream ${is}`, onError: (event) => (error = event.error) });
  for await (const piece of result.textStream) text += piece;
  if (error) throw error;
  ends(text, `You said: ai stream ${is}`.trim());
});

scenario('ai-sdk generate_text_tools', all, async (is) => {
  const { text, steps } = await generateText({ model: plain, tools, stopWhen, prompt: `ai weather again ${is}` });
  deepStrictEqual([text, steps.length], [both, 3]);
});

scenario('ai-sdk stream_text_steps', all, async (is) => {
  let error = null;
  const prompt = `ai streams weather both again ${is}`;
  const result = streamText({ model: structured, tools, stopWhen, prompt, onError: (event) => (error = event.error) });
  for await (const part of result.fullStream) if (part.type === 'error') error = part.error;
  if (error) throw error;
  ends(await result.text, `${both}; weather of Oslo; weather of Rome`);
  deepStrictEqual((await result.steps).length, 3);
  counted((await result.totalUsage).totalTokens, is, 90);
});

scenario('ai-sdk generate_object', all, async (is) => {
  deepStrictEqual((await generateObject({ model: structured, schema: Report, prompt: `ai object ${is}` })).object, report);
});

scenario('ai-sdk generate_object_json', [''], async () => {
  deepStrictEqual((await generateObject({ model: plain, schema: Report, prompt: 'ai object in json' })).object, report);
});

scenario('ai-sdk stream_object', ['', 'silence', 'hiccup'], async (is) => {
  let error = null;
  const prompt = `ai stream object ${is}`;
  const result = streamObject({ model: structured, schema: Report, prompt, onError: (event) => (error = event.error) });
  for await (const _ of result.partialObjectStream);
  if (error) throw error;
  deepStrictEqual(await result.object, report);
});

scenario('ai-sdk output_object_after_tools', [''], async () => {
  const output = Output.object({ schema: Report });
  const result = await generateText({ model: structured, tools, stopWhen, output, prompt: 'ai reports weather' });
  deepStrictEqual(result.output, report);
});

scenario('ai-sdk tool_choice', [''], async () => {
  const result = await generateText({ model: plain, tools, toolChoice: 'required', prompt: 'ai must' });
  deepStrictEqual(result.toolCalls.map((call) => call.toolName), ['weather']);
  const named = { type: 'tool', toolName: 'weather' };
  const other = await generateText({ model: plain, tools, toolChoice: named, prompt: 'ai must this' });
  deepStrictEqual(other.toolCalls.map((call) => call.toolName), ['weather']);
});

scenario('ai-sdk params', [''], async () => {
  const prompt = 'ai params expect {"stop": ["END"], "temperature": 0.5, "top_p": 0.5, "seed": 7, "presence_penalty": 0.5}';
  const settings = { stopSequences: ['END'], temperature: 0.5, topP: 0.5, seed: 7, presencePenalty: 0.5 };
  deepStrictEqual((await generateText({ model: plain, prompt, ...settings })).text, 'You said: ai params');
});

scenario('ai-sdk image', [''], async () => {
  const content = [{ type: 'text', text: 'ai image' }, { type: 'image', image: Buffer.from(png, 'base64') }];
  deepStrictEqual((await generateText({ model: plain, messages: user(content) })).text, seen);
});

// Turns that wait for a person. The agent `clerk` asks with a form, or has a tool that needs an approval; the server gives up
// waiting after 20 s, and a stream gets a comment before. The model is asked the same only once, unless a client sends its
// request again.

const clerk = createOpenAICompatible({ name: 'everturn', baseURL: url, apiKey: key })('clerk');

function waits(name, run) {
  for (const [kind, tool] of [['form', 'request_form'], ['approval', 'box__echo']]) {
    scenarios.push({ name: `${name}+${kind}`, run: () => run(`waiting: ${name} ${tool}`) });
  }
}

// What the error says is tried out: the form is open where it says.
async function told({ code, message, waiting }) {
  deepStrictEqual(code, 'waiting_for_person');
  const [form] = waiting.form_ids;
  for (const part of [form, waiting.session_id, '/api/v1/sessions/stream', waiting.stream]) ok(message.includes(part), message);
  const shown = await fetch(new URL(`/api/v1/forms/${form}`, url), { headers: { authorization: `Bearer ${key}` } });
  deepStrictEqual((await shown.json()).status, 'open');
}

waits('openai-node waits', async (text) => {
  const asked = client.chat.completions.create({ model: 'clerk', messages: user(text) });
  const error = await asked.then(() => null, (error) => error);
  ok(error instanceof OpenAI.ConflictError, `${error}`);
  await told(error.error);
});

waits('openai-node waits_stream', async (text) => {
  const stream = await client.chat.completions.create({ model: 'clerk', messages: user(text), stream: true });
  const error = await (async () => { for await (const _ of stream); })().then(() => null, (error) => error);
  ok(error instanceof OpenAI.APIError, `${error}`);
  await told(error.error);
});

waits('openai-node waits_helper', async (text) => {
  const stream = client.chat.completions.stream({ model: 'clerk', messages: user(text) });
  const error = await stream.finalChatCompletion().then(() => null, (error) => error);
  ok(error instanceof OpenAI.OpenAIError, `${error}`);
  await told(error.error ?? error.cause.error);
});

// The SDK repeats every 409, so it is given another status.
waits('ai-sdk waits_generate', async (prompt) => {
  const error = await generateText({ model: clerk, prompt }).then(() => null, (error) => error);
  deepStrictEqual([error?.name, error?.statusCode, error?.isRetryable], ['AI_APICallError', 422, false]);
  await told(JSON.parse(error.responseBody).error);
});

waits('ai-sdk waits_stream', async (prompt) => {
  let error = null;
  const result = streamText({ model: clerk, prompt, onError: (event) => (error = event.error) });
  for await (const part of result.fullStream) if (part.type === 'error') error = part.error;
  // The SDK gives the words alone.
  ok(String(error?.message ?? error).includes('waits for a person'), JSON.stringify(error));
});

// OpenAI's own package of the SDK begins a stream anew whose first output is an error, unless its type says that it is final.
const counted_fetch = (posts) => (...request) => {
  posts.push(request);
  return fetch(...request);
};

waits('ai-sdk-openai waits_stream', async (prompt) => {
  const posts = [];
  const openai = createOpenAI({ baseURL: url, apiKey: key, fetch: counted_fetch(posts) });
  let error = null;
  const result = streamText({ model: openai.chat('clerk'), prompt, onError: (event) => (error = event.error) });
  for await (const part of result.fullStream) if (part.type === 'error') error = part.error;
  deepStrictEqual([error?.name, error?.isRetryable, posts.length], ['AI_APICallError', false, 1]);
  // The SDK gives the words alone.
  ok(error.message.includes('waits for a person'), error.message);
});

scenario('ai-sdk-openai stream_text', ['', 'silence', 'hiccup'], async (is) => {
  const openai = createOpenAI({ baseURL: url, apiKey: key });
  const { text } = streamText({ model: openai.chat(model), prompt: `sdk openai ${is}` });
  deepStrictEqual(await text, `You said: sdk openai ${is}`.trim());
});

let failed = 0;
const wanted = scenarios.filter(({ name }) => !only.length || only.some((word) => name.includes(word)));
await Promise.all(
  wanted.map(async ({ name, run }) => {
    const began = Date.now();
    const say = (what) => console.log(`${name} ${what} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    try {
      await run();
      say('ok');
    } catch (error) {
      failed += 1;
      if (process.env.TRACE) console.error(error);
      const more = error?.responseBody ? ` ${error.responseBody}` : '';
      say(`FAIL: ${`${error?.name}: ${error?.message ?? JSON.stringify(error)}${more}`.replaceAll('\n', ' ').slice(0, 400)}`);
    }
  }),
);
console.log(`${wanted.length - failed} ok, ${failed} failed`);
process.exit(failed ? 1 : 0);
