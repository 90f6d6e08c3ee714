// Starts aimock, a mock of the model providers' wires, on a free loopback port. Prints its address as the first line
// and ends when its standard input does, so that it never outlives the test that started it.
import { LLMock } from "@copilotkit/aimock";

const mock = new LLMock({ host: "127.0.0.1", port: 0, logLevel: "silent" });
await mock.start();
console.log(mock.url);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
