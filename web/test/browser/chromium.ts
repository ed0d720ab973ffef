/** Chromium for the tests of pages: whether it can be driven here, and a window without a network. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";
/** What playwright-core needs; the rest of this package is content with Debian 12's Node.js 18. */
const OLDEST_NODE = 20;

/** Why pages cannot be tested here; false when they can. */
export function whyNot(): string | false {
  if (!existsSync(CHROMIUM)) {
    return "not run: no chromium";
  }
  const [major] = process.versions.node.split(".").map(Number);
  return (major ?? 0) < OLDEST_NODE && `not run: driving a browser needs Node.js ${OLDEST_NODE} or newer`;
}

/** Starts it with its profile under `folder`. */
export async function launch(folder: string): Promise<BrowserContext> {
  // Loaded only where it runs: an older Node.js is told to go, and every test with it.
  const { chromium } = await import("playwright-core");
  return chromium.launchPersistentContext(join(folder, "profile"), {
    executablePath: CHROMIUM,
    viewport: { width: 1280, height: 900 },
    args: [
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
      "--disable-gpu",
      "--disable-quic",
    ],
  });
}

/** Makes a page's window that large, and waits until what is drawn has followed: charts do it in the next frame. */
export async function resize(page: Page, width: number, height: number): Promise<void> {
  await page.setViewportSize({ width, height });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}
