// Chromium, without a window, before the reader of the API document. Reads one line of JSON, `{origin, key}`, uses the page
// as somebody would, and prints what it saw as one line of JSON. Ends when its standard input does, and the browser with it,
// so that they never outlive the test that started them.
import { createInterface } from "node:readline";
import { launch } from "./chromium.mjs";

const HOSTILE = `<img src="http://elsewhere.test/x.png" onerror="window.taken = 1"> and <script>window.taken = 1</script>`;

const lines = createInterface({ input: process.stdin });
const told = await new Promise((read) => lines.once("line", read));
lines.once("close", () => process.exit(0));
const { origin, key } = JSON.parse(told);

const browser = await launch();
const requests = [];
const errors = [];

// A page that notes what it asks for, and what goes wrong on it.
async function open(path, options) {
  const context = await browser.newContext(options);
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
      console.error(`violation of ${violatedDirective}: ${blockedURI}`);
    });
  });
  const page = await context.newPage();
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    // Chromium's own word on answers that say no, which some here are meant to.
    const refused = message.text().startsWith("Failed to load resource") && message.location().url.endsWith("/reply");
    if (message.type() === "error" && !refused) errors.push(message.text());
  });
  if (options?.document) await page.route("**/openapi.json", (route) => route.fulfill({ json: options.document }));
  await page.goto(origin + path);
  await page.waitForSelector("article");
  return page;
}

const part = (page, id) => page.locator(`[data-operation="${id}"]`);
const visible = (page) =>
  page.$$eval("article", (all) => all.filter((one) => one.checkVisibility()).map((one) => one.dataset.operation));
const focused = (page) => page.evaluate(() => document.activeElement.closest("article")?.dataset.operation ?? document.activeElement.id);

// What is there, and how it is found.
async function browse() {
  const page = await open("/docs");
  const seen = { title: await page.title(), operations: await visible(page) };
  seen.linked = await page.$$eval("nav a", (links) => links.map((link) => decodeURIComponent(link.hash.slice(1))));
  seen.headings = await page.$$eval("h1, h2, h3", (all) => [...new Set(all.map((one) => one.tagName))].join(" "));
  await page.keyboard.press("/");
  seen.searching = await focused(page);
  await page.keyboard.type("HEALTHZ get");
  seen.narrowed = await visible(page);
  seen.counted = await page.locator("#found").textContent();
  await page.keyboard.press("Enter");
  await page.waitForSelector("article .body:not([hidden])");
  seen.entered = await focused(page);
  seen.address = new URL(page.url()).hash;

  // Everything opens, and every field that there is has a label.
  await page.fill("#search", "");
  for (const id of seen.operations) {
    await part(page, id).evaluate((one) => {
      const button = one.querySelector("h3 button");
      if (button.getAttribute("aria-expanded") === "false") button.click();
      for (let depth = 0; depth < 3; depth++) one.querySelectorAll("details:not([open])").forEach((it) => (it.open = true));
    });
  }
  await page.waitForFunction(() => ![...document.querySelectorAll("details[open]")].some((one) => one.children.length < 2));
  seen.answered = await page.$$eval("article", (all) => all.filter((one) => one.querySelector(".answer .status")).length);
  seen.unlabelled = await page.$$eval("input, select, textarea", (all) => all.filter((one) => one.labels.length === 0).length);
  seen.nameless = await page.$$eval("button, a, summary", (all) => all.filter((one) => one.textContent.trim() === "").length);
  seen.unresolved = await page.getByText("is not in this document").count();
  await page.context().close();
  return seen;
}

// What an operation takes, opened step by step.
async function trees() {
  const page = await open("/docs#goose_reply");
  const reply = part(page, "goose_reply");
  const seen = { linked: await focused(page) };
  const fold = reply.locator(".schema li > details", { has: page.locator("> summary .name", { hasText: "user_message" }) }).first();
  const fields = () => fold.locator("li .name").allTextContents();
  seen.before = await fields();
  await fold.locator("> summary").focus();
  await page.keyboard.press("Enter");
  await fold.locator("li").first().waitFor();
  seen.after = await fields();
  await page.context().close();
  return seen;
}

async function tryIt() {
  const page = await open("/docs#ops_health");
  const seen = {};
  const health = part(page, "ops_health");
  await health.getByRole("button", { name: "Send" }).click();
  seen.health = await health.locator(".output pre").textContent();
  seen.status = await health.locator(".output .status").textContent();
  await health.getByText(/\d+ headers/).click();
  seen.headers = await health.locator(".headers dt").allTextContents();

  await page.evaluate(() => (location.hash = "#goose_reply"));
  const reply = part(page, "goose_reply");
  const say = async (text) => {
    const content = [{ type: "text", text }];
    await reply.getByLabel("Body").fill(JSON.stringify({ user_message: { role: "user", content }, agent: "demo" }));
    await reply.getByRole("button", { name: "Send" }).click();
  };
  await say("stream 3");
  seen.refused = JSON.parse(await reply.locator(".output pre").textContent());
  await page.getByLabel("Key", { exact: true }).fill(key);
  await say("stream 3");
  await reply.getByText("The stream has ended.").waitFor();
  seen.stream = await reply.locator(".stream").textContent();
  seen.stopShown = await reply.getByRole("button", { name: "Stop" }).isVisible();
  await say("stream 100000 at 50/s");
  await reply.locator(".stream", { hasText: "word 3 " }).waitFor();
  await reply.getByRole("button", { name: "Stop" }).click();
  await reply.getByText("Stopped.").waitFor();
  seen.stopped = (await reply.locator(".stream").textContent()).includes("Finish");
  seen.curl = await reply.getByLabel("curl").textContent();
  await page.evaluate(() => (location.hash = "#aap_v3_show_history"));
  seen.query = await part(page, "aap_v3_show_history").getByLabel("curl").textContent();
  seen.kept = await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length);
  seen.shown = (await page.locator("body").textContent()).includes(key);
  await page.context().close();
  return seen;
}

// A document that means harm, contains itself and leads nowhere.
async function hostile() {
  const { $ref } = { $ref: "#/components/schemas/Self" };
  const Self = { type: "object", description: HOSTILE, properties: { self: { $ref }, [HOSTILE]: { enum: [HOSTILE] } } };
  const content = { "application/json": { schema: { $ref }, example: HOSTILE } };
  const nowhere = { "application/json": { schema: { $ref: "#/components/schemas/__proto__" } } };
  const headers = { "X-Evil": { description: HOSTILE, schema: { $ref: "http://elsewhere.test/schema.json" } } };
  const get = {
    operationId: HOSTILE, summary: HOSTILE, description: HOSTILE, tags: [HOSTILE],
    parameters: [{ name: HOSTILE, in: "query", description: HOSTILE, schema: { type: "string", pattern: HOSTILE } }],
    responses: { 200: { description: HOSTILE, content, headers }, 400: { description: "", content: nowhere } },
  };
  const document = {
    openapi: "3.1.0",
    info: { title: HOSTILE, version: HOSTILE, description: HOSTILE },
    servers: [{ url: "http://elsewhere.test" }],
    tags: [{ name: HOSTILE, description: HOSTILE }],
    paths: { "/x": { get } },
    components: { schemas: { Self } },
  };
  const page = await open("/docs", { document });
  await page.locator("article h3 button").click();
  const opened = () => page.locator("details[open]").count();
  for (let depth = 0; depth < 6; depth++) {
    const before = await opened();
    await page.$$eval("article details:not([open])", (all) => all.forEach((one) => (one.open = true)));
    await page.waitForFunction((before) => document.querySelectorAll("details[open]").length > before, before);
  }
  const seen = await page.evaluate(() => ({
    taken: window.taken ?? null,
    made: document.querySelectorAll("img, article script").length,
    description: document.querySelector("article .prose").textContent,
    selves: document.querySelectorAll(".schema .name").length,
    lost: document.body.textContent.split("is not in this document").length - 1,
    curl: document.querySelector(".curl code").textContent,
  }));
  await page.context().close();
  return seen;
}

// On a phone, in the dark.
async function phone() {
  const page = await open("/docs#goose_reply", { viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  const seen = { width: await page.evaluate(() => document.scrollingElement.scrollWidth) };
  seen.back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  seen.closed = await page.locator("nav").isVisible();
  await page.getByRole("button", { name: "Contents" }).click();
  seen.open = await page.locator("nav").isVisible();
  await page.context().close();
  return seen;
}

// What the page is not allowed, whoever asks it to. Not counted among what it does.
async function policy() {
  const page = await browser.newPage();
  await page.goto(`${origin}/docs`);
  const seen = await page.evaluate(async () => {
    const refused = async (run) => {
      try {
        await run();
        return false;
      } catch {
        return true;
      }
    };
    return {
      markup: await refused(() => (document.body.innerHTML = "<b>bold</b>")),
      elsewhere: await refused(() => fetch("http://127.0.0.1:9/", { mode: "no-cors" })),
      // Not at once: what a debugger runs itself may do more.
      code: await refused(async () => {
        await new Promise((later) => setTimeout(later));
        (0, eval)("1");
      }),
    };
  });
  await page.close();
  return seen;
}

const seen = { browse: await browse(), trees: await trees(), tryIt: await tryIt(), hostile: await hostile(), phone: await phone() };
const hosts = [...new Set(requests.map((url) => new URL(url).origin))];
console.log(JSON.stringify({ ...seen, hosts, errors, policy: await policy() }));
await browser.close();
process.exit(0);
