/** A live page in a real browser, and the server whose events it follows. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import type { BrowserContext, Page } from "playwright-core";
import { launch, whyNot } from "./chromium";

/** Serves `dist/NAME.html` while the file's tests run. */
export class LivePage<Message> {
  private readonly viewers = new Set<ServerResponse>();
  private browser!: BrowserContext;
  private readonly server;

  constructor(name: string) {
    const folder = mkdtempSync(join(tmpdir(), `wansan-${name}-`));
    this.server = createServer((request, response) => {
      if (request.url === "/events") {
        response.writeHead(200, { "Content-Type": "text/event-stream" });
        this.viewers.add(response);
        response.flushHeaders();
      } else {
        response.end(readFileSync(`dist/${name}.html`));
      }
    });
    before(async () => {
      if (whyNot() !== false) {
        return;
      }
      await new Promise<void>((listening) => this.server.listen(0, "127.0.0.1", listening));
      this.browser = await launch(folder);
    });
    after(async () => {
      await this.browser?.close();
      this.server.closeAllConnections();
      this.server.close();
      rmSync(folder, { recursive: true, force: true });
    });
  }

  /** Opens the page, which then follows; `wrong` collects what its console reports. */
  async open(): Promise<{ page: Page; wrong: string[] }> {
    this.viewers.clear();
    const page = await this.browser.newPage();
    // Other tests may have the processors at the same time.
    page.setDefaultTimeout(120_000);
    const wrong: string[] = [];
    page.on("console", (message) => message.type() !== "log" && wrong.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    await page.goto(`http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`);
    while (this.viewers.size === 0) {
      await page.waitForTimeout(10);
    }
    return { page, wrong };
  }

  /** Sends events to whoever follows. */
  send(...messages: Message[]): void {
    const text = messages.map((message) => `data: ${JSON.stringify(message)}\n\n`).join("");
    this.viewers.forEach((viewer) => viewer.write(text));
  }
}
