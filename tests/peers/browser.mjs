// Chromium, without a window: follows the turn at every address that it reads, one on each line, from a page of an origin
// of its own, and prints what comes, as lines of JSON. The first line has that origin. Ends when its standard input does,
// and the browser with it, so that they never outlive the test that started them.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const LAUNCH_MS = 60_000;

const print = (line) => console.log(JSON.stringify(line));

// Some systems have a stand-in by such a name that only says how to install the real one.
function installed() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const files = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  const found = files.find((file) => existsSync(file) && spawnSync(file, ["--version"]).status === 0);
  if (!found) throw new Error(`no Chromium on the PATH, by none of the names ${NAMES.join(", ")}`);
  return found;
}

const script = readFileSync(new URL("watch.mjs", import.meta.url));
const site = createServer(({ url }, response) => {
  const [type, body] = url === "/watch.mjs" ? ["text/javascript", script] : ["text/html", "<!doctype html>"];
  response.setHeader("content-type", type).end(body);
});
await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${site.address().port}`;

// Without Chromium's sandbox, which neither root nor most containers can have; nothing is visited but this and the server.
const browser = await chromium.launch({ executablePath: installed(), timeout: LAUNCH_MS, chromiumSandbox: false });
const page = await browser.newPage();
page.on("response", (response) => {
  if (response.request().resourceType() === "eventsource") print({ url: response.url(), status: response.status() });
});
await page.exposeFunction("print", print);
await page.goto(origin);
print({ origin: await page.evaluate(() => location.origin) });
for await (const url of createInterface({ input: process.stdin })) {
  await page.evaluate(async (url) => {
    const { watch } = await import("/watch.mjs");
    // One after the other, since each is on its way for a while.
    let printed = Promise.resolve();
    watch(EventSource, url, (line) => (printed = printed.then(() => print(line))));
  }, url);
}
await browser.close();
process.exit(0);
