// Starts Chromium, without a window.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const LAUNCH_MS = 60_000;

// Some systems have a stand-in by such a name that only says how to install the real one.
function installed() {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const files = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  const found = files.find((file) => existsSync(file) && spawnSync(file, ["--version"]).status === 0);
  if (!found) throw new Error(`no Chromium on the PATH, by none of the names ${NAMES.join(", ")}`);
  return found;
}

// Without Chromium's sandbox, which neither root nor most containers can have; nothing is visited but what a test serves.
export function launch() {
  return chromium.launch({ executablePath: installed(), timeout: LAUNCH_MS, chromiumSandbox: false });
}
