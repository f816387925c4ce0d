// One story a run: `node story.mjs NAME`, with OpenAI's own client. Prints what happened as one line of JSON.
// The client is found by the package's folder, which the test names, because it is not installed beside this file.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { CLIENT, BASE_URL, API_KEY } = process.env;
const found = createRequire(`${CLIENT}/`).resolve("openai");
const { default: OpenAI, toFile: _ } = await import(pathToFileURL(found.replace(/\.js$/, ".mjs")));
const make = (options = {}) => new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0, ...options });
const ai = make();
const said = (content) => [{ role: "user", content }];

async function caught(promise) {
  try {
    await promise;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, param: error.param, code: error.code, message: error.message };
  }
  throw new Error("no error was thrown");
}

const stories = {
  async chat() {
    const answer = await ai.chat.completions.create({ model: "helper", messages: said("hello") });
    const models = [];
    for await (const model of ai.models.list()) models.push(model.id);
    return { text: answer.choices[0].message.content, usage: answer.usage.total_tokens, models };
  },
  async chatStream() {
    const asked = { model: "helper", messages: said("hello"), stream: true, stream_options: { include_usage: true } };
    let text = "", finish, usage, chunks = 0;
    for await (const chunk of await ai.chat.completions.create(asked)) {
      chunks += 1;
      text += chunk.choices[0]?.delta?.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    return { text, finish, usage: usage.total_tokens, many: chunks > 2 };
  },
  async chatTools() {
    let text = "", tools = [];
    for await (const chunk of await ai.chat.completions.create({ model: "helper", messages: said("tool"), stream: true })) {
      text += chunk.choices[0]?.delta?.content ?? "";
      if (chunk.hermes?.tool) tools.push(chunk.hermes.tool.state);
    }
    const own = [{ type: "function", function: { name: "mine", parameters: { type: "object", properties: {} } } }];
    const refused = await caught(ai.chat.completions.create({ model: "helper", messages: said("x"), tools: own }));
    return { text, tools, refused };
  },
  async responses() {
    const first = await ai.responses.create({ model: "helper", input: "hello", metadata: { ticket: "7" } });
    const more = await ai.responses.create({ model: "helper", input: "more", previous_response_id: first.id });
    const again = await ai.responses.retrieve(first.id);
    await ai.responses.delete(first.id);
    const gone = await caught(ai.responses.retrieve(first.id));
    return { text: first.output_text, more: more.output_text, again: again.metadata, status: first.status, gone };
  },
  async responsesStream() {
    const kinds = [];
    let text = "";
    for await (const event of await ai.responses.create({ model: "helper", input: "hello", stream: true })) {
      kinds.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    const helper = ai.responses.stream({ model: "helper", input: "tool" });
    const final = await helper.finalResponse();
    return { first: kinds[0], last: kinds.at(-1), text, helper: final.output_text };
  },
  async errors() {
    const missing = await caught(ai.chat.completions.create({ model: "nobody", messages: said("x") }));
    const stranger = await caught(make({ apiKey: "wrong" }).models.list());
    const empty = await caught(ai.responses.create({ model: "helper", input: "" }));
    const sleepy = await caught(ai.chat.completions.create({ model: "sleepy", messages: said("x") }));
    return { missing, stranger, empty, sleepy };
  },
  async timeouts() {
    const ours = await caught(make({ timeout: 300 }).chat.completions.create({ model: "helper", messages: said("never") }));
    const theirs = await caught(ai.responses.create({ model: "helper", input: "never" }));
    return { ours, theirs };
  },
  async abort() {
    const controller = new AbortController();
    const asked = { model: "helper", messages: said("grow"), stream: true };
    let chunks = 0, text = "";
    for await (const chunk of await ai.chat.completions.create(asked, { signal: controller.signal })) {
      text += chunk.choices[0]?.delta?.content ?? "";
      if (text && (chunks += 1) === 2) controller.abort();
    }
    return { chunks, text };
  },
};

console.log(JSON.stringify(await stories[process.argv[2]]()));
