// Node.js with the package `eventsource`: follows the turn at every address that it reads, one on each line, and prints
// what comes, as lines of JSON. Ends when its standard input does, so that it never outlives the test that started it.
import { createInterface } from "node:readline";
import { EventSource } from "eventsource";
import { watch } from "./watch.mjs";

const print = (line) => console.log(JSON.stringify(line));

print({ origin: null });
for await (const url of createInterface({ input: process.stdin })) {
  const noted = async (...request) => {
    const response = await fetch(...request);
    print({ url, status: response.status });
    return response;
  };
  watch(EventSource, url, print, { fetch: noted });
}
process.exit(0);
