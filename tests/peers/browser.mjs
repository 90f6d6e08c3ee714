// Chromium, without a window: follows the turn at every address that it reads, one on each line, from a page of an origin
// of its own, and prints what comes, as lines of JSON. The first line has that origin. Ends when its standard input does,
// and the browser with it, so that they never outlive the test that started them.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { launch } from "./chromium.mjs";

const print = (line) => console.log(JSON.stringify(line));

const script = readFileSync(new URL("watch.mjs", import.meta.url));
const site = createServer(({ url }, response) => {
  const [type, body] = url === "/watch.mjs" ? ["text/javascript", script] : ["text/html", "<!doctype html>"];
  response.setHeader("content-type", type).end(body);
});
await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${site.address().port}`;

const browser = await launch();
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
